// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <algorithm>

#include "backends/llvm/analysis/statement_values.h"
#include "backends/llvm/gemm/plan.h"
#include "backends/llvm/gemm/tile_sizes.h"
#include "backends/llvm/gemm/winograd.h"
#include "ferrite/emitter/gemm.h"

namespace ferrite::emitter {
namespace {

/// Expresses the operand's index in packed coordinates. It also covers the padding columns of the last panel;
/// their values are never stored.
OperandLayout layout_of(const GemmPlan& plan, const loop::Statement& statement, index::Pool& pool,
                        bool columns) {
  const auto& operand = columns ? plan.column : plan.row;
  OperandLayout layout;
  layout.buffer = statement.ops[operand.load].buffer;
  layout.dims = packed_dims(plan, columns);

  const bool sums = columns && plan.winograd;
  auto extents = layout.dims;
  if (sums) {
    layout.terms = winograd_taps * winograd_taps;
    layout.factor_dim = 2;
    layout.factors = winograd_factors();
    extents.push_back(layout.terms);
  }

  std::vector<index::Symbol> packed;
  for (int64_t dim : extents) packed.push_back(pool.new_symbol({0, dim > 0 ? dim - 1 : 0}));
  Replacements replacements;
  expand_axis(pool, operand.batch, pool.symbol(packed[0]), replacements);
  auto step = pool.symbol(packed[2]);
  if (sums)
    step = pool.add(pool.mul(pool.symbol(packed[5]), plan.window->channels), pool.symbol(packed[3]));
  else if (columns && plan.amx)
    step = pool.add(pool.mul(step, 2), pool.symbol(packed[4]));
  expand_axis(pool, plan.depth, step, replacements);
  if (columns && !plan.in_lines) {
    auto column =
        pool.add(pool.mul(pool.symbol(packed[1]), plan.block_columns()), pool.symbol(packed[sums ? 4 : 3]));
    expand_axis(pool, plan.columns, column, replacements);
  } else {
    expand_axis(pool, columns ? plan.columns : plan.rows, pool.symbol(packed[1]), replacements);
  }

  // A pool of the packed coordinates alone, in which symbol k is coordinate k.
  index::Pool fresh;
  for (int64_t dim : extents) fresh.new_symbol({0, dim > 0 ? dim - 1 : 0});
  std::vector<index::Expr> logical;
  for (auto expr : statement.ops[operand.load].index)
    logical.push_back(fresh.import(pool, pool.substitute(expr, replacements), [&](index::Symbol symbol) {
      for (index::Symbol k = 0; k < packed.size(); ++k)
        if (packed[k] == symbol) return fresh.symbol(k);
      return fresh.constant(0);
    }));
  std::vector<index::Record> records;
  layout.unpack = fresh.write_records(logical, records);
  for (const auto& record : records)
    layout.exprs.push_back({static_cast<uint32_t>(record.op), 0, record.value, record.lhs, record.rhs});
  return layout;
}

/// Register blocks worth measuring besides the chosen one: the few with the least estimated time, and the
/// best one of each width.
std::vector<GemmPlan::Block> other_blocks(const GemmPlan& plan) {
  constexpr size_t most = 7, fastest = 3;
  auto sorted = plan.blocks;
  std::ranges::stable_sort(sorted, {}, &GemmPlan::Block::time);
  std::erase_if(sorted, [&](const auto& block) {
    return block.rows == plan.block_rows && block.vectors == plan.block_vectors;
  });
  std::vector<GemmPlan::Block> result;
  std::vector<int> widths{plan.block_vectors};
  for (const auto& block : sorted) {
    const bool wider = std::ranges::find(widths, block.vectors) == widths.end();
    if (result.size() == most) break;
    if (result.size() >= fastest && !wider) continue;
    if (wider) widths.push_back(block.vectors);
    result.push_back(block);
  }
  return result;
}

}  // namespace

size_t loads_of(const loop::Statement& statement, loop::BufferId buffer) {
  return static_cast<size_t>(std::ranges::count_if(
      statement.ops, [&](const loop::BodyOp& op) { return op.code == FE_OP_LOAD && op.buffer == buffer; }));
}

bool packings_match(const GemmPlan& plan, const loop::Kernel& kernel) {
  for (loop::BufferId b = 0; b < kernel.buffers.size(); ++b) {
    const auto& packing = kernel.buffers[b].packing;
    if (!packing) continue;
    bool used = false;
    for (bool columns : {false, true}) {
      const auto& operand = columns ? plan.column : plan.row;
      if (operand.load == loop::none || plan.statement.ops[operand.load].buffer != b) continue;
      const bool sums = columns && plan.winograd;
      if (operand.access != Access::packed || (packing->terms > 0) != sums ||
          packing->dims != packed_dims(plan, columns))
        return false;
      used = true;
    }
    if (!used || loads_of(plan.statement, b) != 1) return false;
  }
  return true;
}

std::vector<int64_t> packed_dims(const GemmPlan& plan, bool columns) {
  if (!columns) return {plan.row.batch.extent, plan.rows.extent, plan.depth.extent};
  if (plan.in_lines) return {plan.column.batch.extent, plan.columns.extent, plan.depth.extent};
  const int64_t panels = ceil_div(plan.columns.extent, plan.block_columns());
  if (plan.amx) return {plan.column.batch.extent, panels, plan.depth.extent / 2, plan.block_columns(), 2};
  if (plan.winograd)
    return {plan.column.batch.extent, panels, int64_t{winograd_products}, plan.window->channels,
            plan.block_columns()};
  return {plan.column.batch.extent, panels, plan.depth.extent, plan.block_columns()};
}

std::vector<OperandLayout> layouts_of(const GemmPlan& plan, const loop::Statement& statement,
                                      index::Pool& pool) {
  std::vector<OperandLayout> layouts;
  for (bool columns : {false, true})
    if ((columns ? plan.column : plan.row).access == Access::packed)
      layouts.push_back(layout_of(plan, statement, pool, columns));
  return layouts;
}

std::vector<GemmOption> gemm_options(const Target& target, const loop::Kernel& kernel, bool winograd) {
  auto copy = kernel;
  auto plan = plan_gemm(target, copy, true);
  std::vector<GemmOption> options;
  if (!plan) return options;
  options.push_back({{}, 1, layouts_of(*plan, kernel.statements[0], copy.pool)});
  double own = 0;
  for (const auto& block : plan->blocks)
    if (block.rows == plan->block_rows && block.vectors == plan->block_vectors) own = block.time;
  const auto others = other_blocks(*plan);
  // The number of tasks does not affect the layout. The best number depends on the machine's load, which the
  // cost model does not know: rank both variants just after the default.
  constexpr double unknown = 1.02;
  for (const int tasks : {-1, 1}) options.push_back({{0, 0, tasks}, unknown, options[0].layouts});
  for (const auto& block : others) {
    plan->block_rows = block.rows;
    plan->block_vectors = block.vectors;
    options.push_back({{block.rows, block.vectors, 0},
                       std::max(unknown, own > 0 ? block.time / own : unknown),
                       layouts_of(*plan, kernel.statements[0], copy.pool)});
  }
  if (!winograd) return options;
  const GemmConfig config{.winograd = true};
  auto tiled = kernel;
  if (const auto other = plan_gemm(target, tiled, true, config))
    options.push_back(
        {config, other->cycles / plan->cycles, layouts_of(*other, kernel.statements[0], tiled.pool)});
  return options;
}

}  // namespace ferrite::emitter
