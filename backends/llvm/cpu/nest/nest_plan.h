// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How one statement's loop nest is walked: merged variables, the vector variable, the order, the unrolling.
#pragma once

#include <optional>
#include <vector>

#include "ferrite/emitter/target.h"
#include "ferrite/loop.hpp"

namespace ferrite::emitter {

struct StatementPlan {
  loop::Statement statement;     ///< with neighbouring variables merged where every access allows it
  size_t fixed = 0;              ///< leading variables whose values are given from outside
  std::vector<size_t> outer;     ///< parallel variables walked one by one, outermost first
  std::optional<size_t> vector;  ///< variable whose neighbouring points are lanes; parallel or reduction
  std::optional<size_t> inside;  ///< parallel variable walked inside the vector loop (transposed reads)
  std::vector<loop::OpId>
      transposed;          ///< loads that are contiguous along `inside`: read and transposed a tile at a time
  int64_t tile_lines = 0;  ///< values of `inside` in a tile
  int64_t tile_row = 0;    ///< values of the vector variable in a tile
  int64_t strip =
      0;  ///< values of the vector variable whose states are kept over all rows of a reduction; 0: a few
  std::vector<size_t> reductions;  ///< reduction variables walked one by one, outermost first
  int64_t steps_at_once = 1;       ///< of the innermost one of them, whose reads are on their way together
  unsigned lanes = 1;
  unsigned unroll = 1;        ///< vectors at a time along the vector variable
  std::vector<bool> streams;  ///< by store: its vectors go past the caches, where memory is aligned to them
  bool unroll_reduction = false;  ///< the reduction variables are few small constants: straight-line code
  double cycles = 0;              ///< estimate for one point of the parallel variables beyond `fixed`

  bool vector_is_parallel() const {
    return vector && statement.vars[*vector].kind == loop::VarKind::parallel;
  }
};

/// Plans the variables beyond the first `fixed`; those are neither merged nor reordered.
StatementPlan plan_statement(const Target& target, loop::Kernel& kernel, const loop::Statement& statement,
                             size_t fixed);

/// Points of the parallel variables beyond the fixed ones.
double points_of(const StatementPlan& plan);

/// Whether a statement has no points, and does nothing. A reduction over nothing has a result still.
bool is_empty(const loop::Statement& statement);

/// A worker's share should outlast the waking of the worker.
inline constexpr double cycles_of_share = 8000;

/// Rows that a strip takes in at a time.
inline constexpr int64_t rows_of_strip = 8;

/// Values of the vector variable that should not be divided among tasks.
int64_t least_block(const StatementPlan& plan);

/// Estimated cycles of an operation on one vector.
double operation_cost(const loop::BodyOp& op);

/// Whether workers may run different values of variable `var` at the same time.
bool independent(index::Pool& pool, const loop::Statement& statement, size_t var);

}  // namespace ferrite::emitter
