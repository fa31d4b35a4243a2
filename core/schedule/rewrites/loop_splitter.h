// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Splitting a loop: a reduction becomes one over parts and one that combines the partial results.
#pragma once

#include <vector>

#include "core/schedule/body.h"
#include "core/schedule/schedule.h"

namespace ferrite::core::schedule {

/// By store of a reduction, whether it runs at each step. Empty where the steps cannot be separated from the
/// operations after the reduction.
std::vector<bool> element_stores(const LoopProgram& program, const Statement& statement);

/// Parts for each worker. Workers that finish early take further parts, and larger machines still have enough
/// of them.
constexpr int64_t parts_of_worker = 32;

bool reads_only_constants(const LoopProgram& program, const Statement& statement);

/// The split of one of the variables after the parallel ones: into `parts` parts of `steps` steps each, and
/// `rest` steps after them.
struct Cut {
  size_t var = 0;
  int64_t parts = 0, steps = 0, rest = 0;
};
/// Chooses parts without a rest, near the wanted number, where that is possible.
Cut cut_of(const Statement& statement, int64_t wanted);

/// The bytes of one part's partial results.
int64_t bytes_of_part(const Statement& whole);
/// cut_of() with as many parts as memory allows, independent of the target's numbers; no parts where two
/// would take too much. The results of all parts may take a 64th of the bytes of all points as f32, but at
/// least 1 KiB, which is the slack of a memory plan, and at most 1 MiB; or `allowed` bytes
/// (MemoryLimit::for_parts()), where that is more.
Cut cut_within(const Statement& statement, int64_t wanted, int64_t part_bytes, int64_t allowed);

/// The loops of all parts, the part's number being the first variable; or those of the rest, which counts as
/// the part after the last one.
struct PartLoops {
  std::vector<Var> vars;
  Substitution symbols;  ///< the original variables, in terms of the new ones
  /// index of a part's partial result: the part's number, then the parallel variables
  std::vector<index::Expr> at;

  PartLoops(index::Pool& pool, const Statement& whole, const Cut& cut, bool rest);
};

/// Makes the statements of both levels; the original statement does not change. Buffers for the partial
/// results are added to the program.
class Splitter {
 public:
  /// `element_stores`: the result of element_stores(), one for each store.
  Splitter(LoopProgram& program, const ProgramStatement& whole, std::vector<bool> element_stores, Cut cut);

  /// The statement of all parts, or that of the rest.
  ProgramStatement part(bool rest);
  /// The statement that combines the partial results and stores what the original one stored after its
  /// reduction.
  ProgramStatement combined();

 private:
  struct Partial {
    uint32_t value = none, index = none;  ///< buffers, or operations that load them
  };

  BufferId add_buffer(DType dtype);
  /// The version of a partial buffer that the rest writes; the combining statement reads it.
  BufferId rest_version(BufferId base);

  LoopProgram& program_;
  const ProgramStatement whole_;
  const std::vector<bool> element_stores_;
  const Cut cut_;
  std::vector<Partial> partial_;  ///< by reduction
};

}  // namespace ferrite::core::schedule
