// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "backends/llvm/cpu/attention/streaming_softmax.h"

#include <algorithm>
#include <numeric>

#include "backends/llvm/analysis/statement_values.h"
#include "backends/llvm/cpu/gemm/emit.h"
#include "backends/llvm/gemm/tile_sizes.h"
#include "backends/llvm/nest/nest_plan.h"
#include "ferrite/analysis/softmax_products.hpp"

namespace ferrite::emitter {
namespace {

constexpr int64_t most_rows = 128;    // columns are packed, and read from memory, once for all of these rows
constexpr int64_t enough_rows = 32;   // fewer rows would pack too often
constexpr int64_t wanted_tasks = 32;  // enough tasks to balance many workers
constexpr int64_t usual_columns = 512;  // more columns take more of the cache with no further gain
constexpr int64_t even_elements = 16;   // rows of a tile start at cache lines

/// Builds the kernel of a plan from the statements found in the original kernel.
class Statements {
 public:
  Statements(loop::Kernel& kernel, const loop::SoftmaxProducts& found, StreamingSoftmax& plan)
      : kernel_(kernel), pool_(kernel.pool), found_(found), plan_(plan) {}

  /// Returns false if a value is not f32.
  bool make() {
    if (found_.between.ops[found_.score].dtype != f32 || !in_f32()) return false;
    const auto row = kernel_.statements[0].vars[kernel_.shared - 1].symbol;
    for (auto& buffer : kernel_.buffers)
      if (buffer.kind == FE_BUFFER_LOCAL) std::ranges::fill(buffer.dims, 0);
    plan_.column = found_.column.symbol;
    plan_.score = add_local({found_.row.extent, found_.column.extent}, {found_.column.extent, 1});
    plan_.maximum = add_local({1}, {1});
    plan_.sum = add_local({1}, {1});
    plan_.inverse_sum = add_local({found_.row.extent}, {1});
    std::vector<loop::Statement> statements = {scores(row), maximum(row), exponentials(row), product()};
    kernel_.statements = std::move(statements);
    return true;
  }

 private:
  loop::BufferId add_local(std::vector<int64_t> dims, std::vector<int64_t> strides) {
    auto& buffer = kernel_.buffers.emplace_back();
    buffer.dtype = f32;
    buffer.dims = std::move(dims);
    buffer.strides = std::move(strides);
    return static_cast<loop::BufferId>(kernel_.buffers.size() - 1);
  }

  const loop::Statement& second() const { return kernel_.statements[found_.second]; }
  const loop::BodyOp& second_product() const { return second().ops[second().reductions[0].element]; }

  bool in_f32() const {
    const auto& reductions = found_.between.reductions;
    const auto wide = [](const loop::Reduction& reduction) {
      return reduction.accumulator == f32 || reduction.accumulator == DType::none;
    };
    return wide(reductions[found_.most]) && wide(reductions[found_.sum]) && wide(second().reductions[0]) &&
           second_product().is_prim() && second_product().prim() == Prim::mul_ &&
           second_product().dtype == f32;
  }

  static loop::OpId add(loop::Statement& statement, loop::BodyOp op) {
    statement.ops.push_back(std::move(op));
    return static_cast<loop::OpId>(statement.ops.size() - 1);
  }
  static loop::BodyOp prim(Prim prim, loop::OpId a, loop::OpId b = loop::none) {
    loop::BodyOp op;
    op.code = static_cast<uint16_t>(prim);
    op.dtype = f32;
    op.a = a;
    op.b = b;
    return op;
  }
  static loop::BodyOp load(loop::BufferId buffer, std::vector<index::Expr> index) {
    loop::BodyOp op;
    op.code = FE_OP_LOAD;
    op.dtype = f32;
    op.buffer = buffer;
    op.index = std::move(index);
    return op;
  }
  static loop::BodyOp reduced() {
    loop::BodyOp op;
    op.code = FE_OP_REDUCED;
    op.dtype = f32;
    return op;
  }

  /// Copies the values of `roots` with their operands from another body. `changed` may append an operation
  /// after each copied one; it returns the operation to use instead.
  template <class Changed>
  std::vector<loop::OpId> copy(loop::Statement& into, const loop::Statement& from,
                               const std::vector<loop::OpId>& roots, Changed&& changed) const {
    const auto needed = needed_operations(from, pool_, roots);
    std::vector<loop::OpId> numbers(from.ops.size(), loop::none), result;
    for (size_t k = 0; k < from.ops.size(); ++k) {
      if (!needed[k]) continue;
      auto op = from.ops[k];
      for (auto* operand : {&op.a, &op.b, &op.c})
        if (*operand != loop::none) *operand = numbers[*operand];
      numbers[k] = changed(add(into, std::move(op)));
    }
    for (const auto root : roots) result.push_back(numbers[root]);
    return result;
  }
  static loop::OpId same(loop::OpId id) { return id; }

  std::vector<index::Expr> score_index(index::Symbol row, index::Symbol column) const {
    return {pool_.symbol(row), pool_.symbol(column)};
  }
  std::vector<index::Expr> only() const { return {pool_.constant(0)}; }

  loop::Statement scores(index::Symbol row) const {
    auto result = kernel_.statements[0];
    const auto score = copy(result, found_.between, {found_.score}, same)[0];
    result.stores = {{plan_.score, score_index(row, found_.column.symbol), score}};
    return result;
  }

  /// A reduction along a row of scores, without a body.
  loop::Statement along_row() const {
    loop::Statement result;
    result.kind = FE_STATEMENT_REDUCE;
    const auto& vars = kernel_.statements[0].vars;
    result.vars.assign(vars.begin(), vars.begin() + kernel_.shared);
    result.vars.push_back({found_.column.symbol, found_.column.extent, loop::VarKind::reduction});
    return result;
  }
  loop::Statement maximum(index::Symbol row) const {
    auto result = along_row();
    const auto score = add(result, load(plan_.score, score_index(row, found_.column.symbol)));
    result.reductions = {{FE_REDUCE_MAX, score, loop::none, f32}};
    result.stores = {{plan_.maximum, only(), add(result, reduced())}};
    return result;
  }
  loop::Statement exponentials(index::Symbol row) const {
    auto result = along_row();
    const auto index = score_index(row, found_.column.symbol);
    const auto score = add(result, load(plan_.score, index)), most = add(result, load(plan_.maximum, only()));
    const auto power = add(result, prim(Prim::exp_, add(result, prim(Prim::sub_, score, most))));
    result.reductions = {{FE_REDUCE_SUM, power, loop::none, f32}};
    result.stores = {{plan_.score, index, power}, {plan_.sum, only(), add(result, reduced())}};
    return result;
  }

  /// The second product, of the exponentials, and its epilogue, which multiplies its sums by the
  /// normalisation factors.
  loop::Statement product() const {
    auto result = second();
    result.ops.clear();
    result.stores.clear();
    const auto row = second().vars[kernel_.shared - 1].symbol;
    result.contract_a = add(result, load(plan_.score, score_index(row, found_.summed.symbol)));
    const auto& multiplied = second_product();
    const auto needed = needed_operations(second(), pool_, std::vector{multiplied.a});
    const auto factor = needed[found_.value] ? multiplied.a : multiplied.b;
    const auto value = copy(result, second(), {factor, found_.value}, same);
    result.contract_b = value[1];
    result.reductions[0].element = add(result, prim(Prim::mul_, result.contract_a, value[0]));
    const auto inverse_sum = add(result, load(plan_.inverse_sum, {pool_.symbol(row)}));
    std::vector<loop::OpId> roots;
    for (const auto& store : found_.finish.stores) roots.push_back(store.value);
    const auto values = copy(result, found_.finish, roots, [&](loop::OpId id) {
      return result.ops[id].code == FE_OP_REDUCED ? add(result, prim(Prim::mul_, id, inverse_sum)) : id;
    });
    for (size_t k = 0; k < values.size(); ++k) {
      result.stores.push_back(found_.finish.stores[k]);
      result.stores.back().value = values[k];
    }
    return result;
  }

  loop::Kernel& kernel_;
  index::Pool& pool_;
  const loop::SoftmaxProducts& found_;
  StreamingSoftmax& plan_;
};

double as_double(int64_t value) { return static_cast<double>(value); }

/// Cycles per score that whole rows spend on data outside the second-level cache: scores, moved once for each
/// statement that produces or reads them, and the columns of both products, which every block of rows reads.
// The constants are cycles per byte from the last-level cache and from memory, and the moves of a score: both
// products, the maximum, and reads and writes of the exponentials.
double moved_cycles(const Target& target, const StreamingSoftmax& plan, int64_t rows) {
  constexpr double times_moved = 7, of_last_cache = 1.0 / 64, of_memory = 1.0 / 16;
  constexpr int64_t bytes = sizeof(float);
  const int64_t line = (plan.scores.depth.extent + plan.product.columns.extent) * bytes;
  const int64_t all = plan.scores.columns.extent * (rows * bytes + line);
  if (all <= target.l2_bytes / 2) return 0;
  return (times_moved * bytes + as_double(line) / as_double(rows)) *
         (all <= target.l3_bytes_per_core / 2 ? of_last_cache : of_memory);
}

/// Cycles per score that tiles spend on packing columns again and on rescaling sums.
double tile_cycles(const StreamingSoftmax& plan) {
  constexpr double packed_element = 0.5, of_correction = 60;
  return packed_element * as_double(plan.scores.depth.extent) / as_double(plan.rows) +
         (of_correction + as_double(plan.product.columns.extent) / plan.product.lanes) /
             as_double(plan.columns);
}

}  // namespace

std::optional<StreamingSoftmax> plan_streaming_softmax(const Target& target, loop::Kernel& kernel,
                                                       const AttentionBlocks& whole) {
  const auto found = loop::find_softmax_products(kernel.pool, kernel, loop::SoftmaxOperands::any);
  if (!found || found.nan_as_zero || !found.between.stores.empty()) return std::nullopt;
  StreamingSoftmax plan;
  if (!Statements(kernel, found, plan).make()) return std::nullopt;
  const int64_t extent = found.row.extent, columns = found.column.extent;
  // Scores take a quarter of the second-level cache, next to the columns and the sums.
  constexpr int64_t bytes = sizeof(float), widest_panel = 8 * even_elements, page = 2048;
  const int64_t wanted = std::clamp(target.l2_bytes / 4 / bytes / most_rows, even_elements, usual_columns);
  plan.kept = wanted + widest_panel + even_elements;
  // A row stride that is a multiple of a page maps all rows to the same few cache sets.
  if (plan.kept * bytes % page == 0) plan.kept += even_elements;
  kernel.buffers[plan.score].strides = {plan.kept, 1};
  for (auto& statement : kernel.statements) make_addresses(kernel, statement);
  auto scores = plan_gemm_inside(target, kernel, 0), product = plan_gemm_inside(target, kernel, 3);
  const auto unit_of = [&] { return std::lcm<int64_t>(scores->block_rows, product->block_rows); };
  // Blocks of both products must divide the same rows; if they do not, use the first one's block for both.
  if (scores && product && unit_of() > most_rows)
    product = plan_gemm_inside(target, kernel, 3, {scores->block_rows, scores->block_vectors, 0});
  if (!scores || !product || scores->columns.vars.size() != 1 || product->depth.vars.size() != 1 ||
      scores->own_batches(kernel.shared) != 1 || product->own_batches(kernel.shared) != 1)
    return std::nullopt;
  const int64_t unit = unit_of();
  plan.scores = std::move(*scores);
  plan.product = std::move(*product);
  const int64_t panel = std::lcm(plan.scores.block_columns(), even_elements);
  plan.columns = std::max<int64_t>(1, wanted / panel) * panel;
  if (plan.columns > plan.kept || plan.columns >= columns) return std::nullopt;
  int64_t points = 1;
  for (size_t k = 0; k + 1 < kernel.shared; ++k) points *= kernel.statements[0].vars[k].extent;
  const int64_t wanted_blocks = ceil_div(wanted_tasks, points);
  const int64_t most = std::max(unit, std::min(most_rows, std::max(enough_rows, extent / wanted_blocks)));
  const int64_t blocks = ceil_div(extent, most);
  plan.rows = ceil_div(ceil_div(extent, blocks), unit) * unit;
  plan.scores.tile_rows = plan.product.tile_rows = plan.rows;
  plan.scores.tile_columns = plan.columns;
  plan.product.depth_tile = plan.columns;
  // The pass over the depth is a tile of columns, so its rows stay in the cache anyway.
  plan.product.near_rows = 0;
  kernel.buffers[plan.score].dims = {plan.rows * plan.kept};
  kernel.buffers[plan.inverse_sum].dims = {plan.rows};

  const double differ = tile_cycles(plan);
  // Stream only if the saved memory traffic exceeds the extra work.
  if (differ >= moved_cycles(target, plan, whole.rows)) return std::nullopt;
  plan.cycles = plan.scores.cycles + plan.product.cycles;
  for (const size_t k : {1, 2}) {
    const auto row = plan_statement(target, kernel, kernel.statements[k], kernel.shared);
    const bool plain = row.vector && row.statement.vars[*row.vector].symbol == plan.column &&
                       // The emitter walks a row as one range of vectors; any other loop order would not fit
                       // a tile.
                       row.transposed.empty() && !row.inside && row.strip == 0;
    if (!plain) return std::nullopt;
    plan.cycles += as_double(points * extent) * row.cycles;
  }
  plan.cycles += differ * as_double(points * extent) * as_double(columns);
  return plan;
}

}  // namespace ferrite::emitter
