// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Builds the body of a statement: hash-conses operations and folds those whose value is known.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "core/ir/loop/program.h"

namespace ferrite::core::loop {

/// Adds operations to the body of one statement. Types must fit (result_type and so on). The folds are:
///   cast to the same type (except floats below f32, where the cast rounds), cast of a constant, integer
///   operations on constants,
///   where of a constant or of equal values, and/or with true or false, comparison of an index that its range
///   decides,
///   load with a constant mask.
/// Float arithmetic on constants is not folded: a backend folds it in its own precision.
class BodyBuilder {
 public:
  BodyBuilder(index::Pool& pool, std::vector<BodyOp>& ops) : pool_(pool), ops_(ops) {}

  /// The operation, an existing equal one, or the result of folding it.
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

/// A map that copies all elements of a buffer to another one of the same type; it has no origins.
ProgramStatement copy_statement(LoopProgram& program, BufferId from, BufferId to);

/// Removes operations, reductions and carries that no store needs, and renumbers the others.
void remove_dead(const index::Pool& pool, Statement& statement);

}  // namespace ferrite::core::loop
