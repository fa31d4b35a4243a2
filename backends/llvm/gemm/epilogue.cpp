// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "backends/llvm/gemm/epilogue.h"

#include <algorithm>
#include <numeric>

namespace ferrite::emitter {

GemmEpilogue::GemmEpilogue(KernelContext& context, const GemmPlan& plan)
    : context_(context),
      builder_(context.builder),
      plan_(plan),
      group_(
          context.kernel.pool.new_symbol({0, std::max<int64_t>(0, (plan.columns.extent - 1) / plan.lanes)})),
      lane_(context.kernel.pool.new_symbol({0, plan.lanes - 1})),
      statement_(finish_statement()),
      body_(context, statement_) {}

/// The statement without the operations that only its sum needs.
loop::Statement GemmEpilogue::finish_statement() {
  auto& pool = context_.kernel.pool;
  auto kept =
      keep_operations(plan_.statement, stored_operations(plan_.statement, pool, plan_.forwards), true);
  kept.vars = {{plan_.batch.symbol, plan_.batch.extent, loop::VarKind::parallel},
               {plan_.rows.symbol, plan_.rows.extent, loop::VarKind::parallel},
               {plan_.columns.symbol, plan_.columns.extent, loop::VarKind::parallel},
               {group_, (plan_.columns.extent + plan_.lanes - 1) / plan_.lanes, loop::VarKind::parallel},
               {lane_, plan_.lanes, loop::VarKind::parallel}};
  Replacements flat;
  for (const auto* axis : {&plan_.batch, &plan_.rows, &plan_.columns})
    if (axis->vars.size() != 1) expand_axis(pool, *axis, pool.symbol(axis->symbol), flat);
  substitute(kept, pool, flat);
  // Splitting the column into vector and lane lets addresses of a vector's lanes be recognised as contiguous.
  auto column = pool.add(pool.mul(pool.symbol(group_), plan_.lanes), pool.symbol(lane_));
  substitute(kept, pool, {{plan_.columns.symbol, column}});
  return kept;
}

Point GemmEpilogue::point_at(const GemmCoordinates& place) {
  Point point;
  point.set(plan_.batch.symbol, place.batch);
  point.set(plan_.rows.symbol, place.row);
  point.set(plan_.columns.symbol, place.column);
  point.set(plan_.depth.symbol, context_.i64(0));
  point.set(group_, builder_.CreateUDiv(place.column, context_.i64(plan_.lanes)));
  point.set(lane_, context_.i64(0));
  return point;
}

void GemmEpilogue::emit_vector(const GemmCoordinates& place, llvm::Value* sums, llvm::Value* mask) {
  auto point = point_at(place);
  point.vector = lane_;
  point.lanes = static_cast<unsigned>(plan_.lanes);
  point.aligned = context_.target.grid.has_value();
  point.mask = mask;
  body_.start(point);
  body_.bind_reduced(0, sums);
  for (const auto& forward : plan_.forwards)
    body_.bind_stored(forward.load, body_.stored_lanes_of(forward.source));
  std::vector<size_t> stores(statement_.stores.size());
  std::iota(stores.begin(), stores.end(), size_t{0});
  body_.store(stores);
}

}  // namespace ferrite::emitter
