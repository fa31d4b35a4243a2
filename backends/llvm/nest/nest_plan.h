// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The loop order of one statement: merged variables, the vector variable, the loop order, the unrolling.
#pragma once

#include <optional>
#include <vector>

#include "ferrite/emitter/target.h"
#include "ferrite/loop.hpp"

namespace ferrite::emitter {

struct StatementPlan {
  loop::Statement statement;     ///< with neighbouring variables merged where every access allows it
  size_t fixed = 0;              ///< leading variables whose values are given from outside
  std::vector<size_t> outer;     ///< parallel variables of the scalar loops, outermost first
  std::optional<size_t> vector;  ///< variable whose neighbouring points are lanes; parallel or reduction
  std::optional<size_t> inside;  ///< parallel variable iterated inside the vector loop (transposed reads)
  /// Loads that are contiguous along `inside`: they are read and transposed one block at a time.
  std::vector<loop::OpId> transposed;
  int64_t transpose_lines = 0;  ///< values of `inside` in a transposition block
  int64_t transpose_row = 0;    ///< values of the vector variable in a transposition block
  /// Values of the vector variable whose states are kept over all rows of a reduction; 0: only a few.
  int64_t strip = 0;
  std::vector<size_t> reductions;  ///< reduction variables of the scalar loops, outermost first
  int64_t steps_at_once = 1;       ///< steps of the innermost reduction loop whose loads are issued together
  unsigned lanes = 1;
  unsigned unroll = 1;        ///< vectors at a time along the vector variable
  std::vector<bool> streams;  ///< by store: its vectors bypass the caches, if memory is aligned to them
  /// the reduction variables are few small constants: emit straight-line code
  bool unroll_reduction = false;
  double cycles = 0;  ///< estimated cycles of one point of the parallel variables beyond `fixed`

  bool vector_is_parallel() const {
    return vector && statement.vars[*vector].kind == loop::VarKind::parallel;
  }
};

/// Plans the variables after the first `fixed`, which are neither merged nor reordered.
StatementPlan plan_statement(const Target& target, loop::Kernel& kernel, const loop::Statement& statement,
                             size_t fixed);

/// Number of points of the parallel variables after the fixed ones.
double points_of(const StatementPlan& plan);

/// Whether a statement has no points and so does nothing. A reduction over an empty range still has a result.
bool is_empty(const loop::Statement& statement);

/// A worker's range of points should take longer than waking the worker: about 8000 cycles.
inline constexpr double cycles_of_range = 8000;

/// Rows that a strip of a reduction processes together.
inline constexpr int64_t rows_of_strip = 8;

/// Number of values of the vector variable below which it is not divided among tasks.
int64_t least_block(const StatementPlan& plan);

/// Estimated cycles of one operation on one vector.
double operation_cost(const loop::BodyOp& op);

/// Whether workers may execute different values of variable `var` in parallel.
bool independent(index::Pool& pool, const loop::Statement& statement, size_t var);

}  // namespace ferrite::emitter
