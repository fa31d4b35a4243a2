// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A loop in parts: a reduction as two, of parts and of what these give.
#pragma once

#include <vector>

#include "core/schedule/body.h"
#include "core/schedule/schedule.h"

namespace ferrite::core::schedule {

/// By store of a reduction: whether it runs at each step of it. Empty where the parts cannot be told from what follows them.
std::vector<bool> element_stores(const LoopProgram& program, const Statement& statement);

/// Parts for each worker: so many that those which are done first find more, on a larger machine too.
constexpr int64_t parts_of_worker = 32;

bool reads_only_constants(const LoopProgram& program, const Statement& statement);

/// The variable behind the parallel ones that is cut: into so many parts of so many steps, and the rest behind them.
struct Cut {
  size_t var = 0;
  int64_t parts = 0, steps = 0, rest = 0;
};
/// Parts without a rest, of about the number that is wanted, where there are such.
Cut cut_of(const Statement& statement, int64_t wanted);

/// What each part gives, in bytes.
int64_t bytes_of_part(const Statement& whole);
/// cut_of() of as many parts as memory allows, whatever the numbers of a target are; no parts where two give too
/// much. All parts together may give a 64th of the bytes that all points have as f32, at least 1 KiB, which is the
/// slack of a memory plan, and at most 1 MiB; or `allowed` bytes (MemoryLimit::for_parts()), where that is more.
Cut cut_within(const Statement& statement, int64_t wanted, int64_t part_bytes, int64_t allowed);

/// The loops of all parts, their number being the first variable; or of what is left behind them, in the place behind theirs.
struct PartLoops {
  std::vector<Var> vars;
  Substitution symbols;         ///< the whole's variables, by these
  std::vector<index::Expr> at;  ///< of what there is for each part: its number, then the parallel variables

  PartLoops(index::Pool& pool, const Statement& whole, const Cut& cut, bool rest);
};

/// Makes both of a statement that stays as it is; their buffers are added to the program.
class Splitter {
 public:
  /// `element_stores` as of the function, one for each store.
  Splitter(LoopProgram& program, const ProgramStatement& whole, std::vector<bool> element_stores, Cut cut);

  /// All parts, or what is left behind them.
  ProgramStatement part(bool rest);
  /// What the whole stored when it was done, of what the parts have stored.
  ProgramStatement combined();

 private:
  struct Partial {
    uint32_t value = none, index = none;  ///< buffers, or operations that load them
  };

  BufferId add_buffer(DType dtype);
  /// What the rest makes of a buffer that the parts have written, and what combines them reads.
  BufferId rest_version(BufferId base);

  LoopProgram& program_;
  const ProgramStatement whole_;
  const std::vector<bool> element_stores_;
  const Cut cut_;
  std::vector<Partial> partial_;  ///< by reduction
};

}  // namespace ferrite::core::schedule
