// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Builds the body of a statement: hash-consed operations, with what is known of them folded away.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "core/ir/loop/program.h"

namespace ferrite::core::loop {

/// Adds operations to the body of one statement. Types must fit (result_type and so on); the folds are
///   cast of its own type (floats below f32 excepted, where it rounds), cast of a constant, integer operations of constants,
///   where of a constant or of equal values, and/or with true or false, comparison of an index with what its range decides,
///   load with a constant mask.
/// Float arithmetic of constants is left alone: a backend folds it in its own precision.
class BodyBuilder {
 public:
  BodyBuilder(index::Pool& pool, std::vector<BodyOp>& ops) : pool_(pool), ops_(ops) {}

  /// The operation, an equal one that is there already, or what it folds to.
  OpId add(BodyOp op);
  OpId constant(DType dtype, uint64_t bits);
  OpId cast(OpId value, DType dtype);

 private:
  OpId intern(BodyOp op);
  std::optional<OpId> fold(const BodyOp& op);
  std::optional<OpId> fold_prim(const BodyOp& op);
  std::optional<index::Range> index_range(OpId id) const;
  const BodyOp* as_constant(OpId id) const;

  index::Pool& pool_;
  std::vector<BodyOp>& ops_;
  std::map<std::vector<uint64_t>, OpId> known_;
};

/// A map that copies all elements of a buffer into another one of its type; without origins.
ProgramStatement copy_statement(LoopProgram& program, BufferId from, BufferId to);

/// Drops operations, reductions and carries that no store needs, and renumbers.
void remove_dead(const index::Pool& pool, Statement& statement);

}  // namespace ferrite::core::loop
