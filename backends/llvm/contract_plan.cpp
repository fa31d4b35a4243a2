// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "contract_plan.h"

#include <algorithm>
#include <array>
#include <limits>

#include "contract_micro.h"
#include "contract_statement.h"
#include "contract_window.h"

namespace ferrite::emitter {
namespace {

using loop::none;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Finds the plan step by step; each step returns false when the kernel is not ours.
class Planner {
 public:
  Planner(const Target& target, loop::Kernel& kernel, bool assume_packed, const ContractConfig& config)
      : target_(target),
        kernel_(kernel),
        pool_(kernel.pool),
        assume_packed_(assume_packed),
        config_(config) {}

  std::optional<ContractPlan> plan() {
    auto merged = merge_statements(kernel_);
    if (!merged) return std::nullopt;
    plan_.statement = std::move(merged->statement);
    plan_.forwards = std::move(merged->forwards);
    return finish_plan();
  }

  /// Of one statement inside the loops that it shares with others.
  std::optional<ContractPlan> plan_inside(size_t statement) {
    plan_.statement = kernel_.statements[statement];
    if (plan_.statement.kind != FE_STATEMENT_CONTRACT || plan_.statement.reductions.size() != 1 ||
        !plan_.statement.carries.empty())
      return std::nullopt;
    make_addresses(kernel_, plan_.statement);
    shared_ = kernel_.shared;
    return finish_plan();
  }

 private:
  std::optional<ContractPlan> finish_plan() {
    if (!find_product() || !find_stores() || !classify()) return std::nullopt;
    make_axes();
    if (!reach_rows() || !reach_columns()) return std::nullopt;
    if (has_matrix_tiles()) {
      use_matrix_tiles();
    } else {
      widen();
      if (config_.rows == 0)
        choose_block();
      else if (!take_block())
        return std::nullopt;
    }
    choose_depth_tile();
    choose_tiles();
    if (!packings_match()) return std::nullopt;
    flatten_buffers(kernel_);
    return std::move(plan_);
  }

  struct Side {
    Operand operand;
    std::vector<bool> needed;
    std::vector<loop::Var> vars;
  };

  const loop::BodyOp& op(loop::OpId id) const { return plan_.statement.ops[id]; }

  /// The element is a product of two float values whose sum is kept in f32 or f64.
  bool find_product() {
    const auto& reduction = plan_.statement.reductions[0];
    if (reduction.kind != FE_REDUCE_SUM || reduction.element == none) return false;
    const auto& product = op(reduction.element);
    if (!product.is_prim() || product.prim() != Prim::mul_ || !is_float(product.dtype)) return false;
    plan_.accumulator =
        reduction.accumulator == DType::none ? compute_type(product.dtype) : reduction.accumulator;
    if (plan_.accumulator != f32 && plan_.accumulator != f64) return false;
    if (bits_of(compute_type(product.dtype)) > bits_of(plan_.accumulator)) return false;
    sides_[0].operand.value = product.a;
    sides_[1].operand.value = product.b;
    for (auto& side : sides_) {
      const std::array roots{side.operand.value};
      side.needed = needed_operations(plan_.statement, pool_, roots);
      for (size_t k = 0; k < plan_.statement.ops.size(); ++k)
        if (side.needed[k] && op(static_cast<loop::OpId>(k)).code == FE_OP_REDUCED) return false;
      side.operand.load = plain_load(side.operand.value);
    }
    plan_.lanes = static_cast<int>(target_.lanes(static_cast<unsigned>(bits_of(plan_.accumulator)) / 8));
    return true;
  }

  /// The load that `value` is when only casts to wider floats lie between and nothing masks it.
  loop::OpId plain_load(loop::OpId value) const {
    while (op(value).is_prim() && op(value).prim() == Prim::cast_) {
      const auto& source = op(op(value).a);
      if (!is_float(op(value).dtype) || !is_float(source.dtype)) return none;
      if (bits_of(op(value).dtype) <= bits_of(source.dtype)) return none;
      value = op(value).a;
    }
    const auto& load = op(value);
    if (load.dtype == f16 && !target_.half_conversion) return none;
    const bool known = load.dtype == f16 || load.dtype == bf16 || load.dtype == f32 || load.dtype == f64;
    return load.code == FE_OP_LOAD && load.a == none && known ? value : none;
  }

  /// Everything that is stored follows the reduction.
  bool find_stores() {
    const auto& stores = plan_.statement.stores;
    if (stores.empty()) return false;
    auto needed = stored_operations(plan_.statement, pool_, plan_.forwards);
    for (const auto& var : plan_.statement.vars) {
      if (var.kind == loop::VarKind::parallel) continue;
      if (depends_on(plan_.statement, pool_, needed, var.symbol)) return false;
      for (const auto& store : stores)
        for (auto expr : store.index)
          if (pool_.depends_on(expr, var.symbol)) return false;
    }
    return true;
  }

  index::Expr store_address() const { return plan_.statement.stores[0].index[0]; }

  bool classify() {
    for (const auto& var : plan_.statement.vars) {
      if (var.kind == loop::VarKind::serial || (var.kind == loop::VarKind::parallel && var.extent == 0))
        return false;
      if (var.extent == 1) continue;
      if (is_pinned(var)) {
        batch_.push_back(var);
        continue;
      }
      const bool in_first = depends_on(plan_.statement, pool_, sides_[0].needed, var.symbol);
      const bool in_second = depends_on(plan_.statement, pool_, sides_[1].needed, var.symbol);
      if (var.kind == loop::VarKind::reduction) {
        depth_.push_back(var);
      } else if (in_first != in_second) {
        sides_[in_first ? 0 : 1].vars.push_back(var);
      } else {
        batch_.push_back(var);
      }
    }
    if (sides_[0].vars.empty() && sides_[1].vars.empty()) return false;
    for (auto& side : sides_) sort_by_store(side.vars);
    if (shared_ > 0) return take_shared_rows();
    if (find_channel()) return true;
    if (!second_has_columns()) std::swap(sides_[0], sides_[1]);
    return true;
  }

  /// Whether it is a shared loop, but for the last.
  bool is_pinned(const loop::Var& var) const {
    return shared_ > 0 && std::ranges::find(plan_.statement.vars, var.symbol, &loop::Var::symbol) -
                                  plan_.statement.vars.begin() <
                              shared_ - 1;
  }

  /// The rows are the last of the shared loops, the columns what is the statement's own.
  bool take_shared_rows() {
    const auto row = plan_.statement.vars[static_cast<size_t>(shared_ - 1)].symbol;
    const auto is_row = [&](const Side& side) { return side.vars.size() == 1 && side.vars[0].symbol == row; };
    if (!is_row(sides_[0])) std::swap(sides_[0], sides_[1]);
    return is_row(sides_[0]) && !sides_[1].vars.empty();
  }

  /// A channelwise contraction: windows over one operand, and the variable along which the output is contiguous is common to
  /// both. It then takes the place of the columns.
  bool find_channel() {
    if (sides_[0].vars.empty() == sides_[1].vars.empty()) return false;
    const auto channel = std::ranges::find_if(
        batch_, [&](const loop::Var& var) { return pool_.coefficient(store_address(), var.symbol) == 1; });
    if (channel == batch_.end()) return false;
    auto& rows = sides_[sides_[0].vars.empty() ? 1 : 0];
    plan_.window = find_window(pool_, kernel_.statements[0], plan_.statement, rows.operand.value, rows.vars,
                               depth_, &*channel);
    if (!plan_.window) return false;
    if (sides_[0].vars.empty()) std::swap(sides_[0], sides_[1]);
    sides_[1].vars = {*channel};
    batch_.erase(channel);
    plan_.channelwise = true;
    return true;
  }

  /// Puts the variable that moves the first store least last.
  void sort_by_store(std::vector<loop::Var>& vars) const {
    for (const auto& var : vars)
      if (!pool_.coefficient(store_address(), var.symbol)) return;
    std::stable_sort(vars.begin(), vars.end(), [&](const auto& a, const auto& b) {
      return std::abs(*pool_.coefficient(store_address(), a.symbol)) >
             std::abs(*pool_.coefficient(store_address(), b.symbol));
    });
  }

  /// The columns are the side along which the output is contiguous.
  bool second_has_columns() const {
    if (sides_[0].vars.empty() || sides_[1].vars.empty()) return !sides_[1].vars.empty();
    auto contiguous = [&](const Side& side) {
      return pool_.coefficient(store_address(), side.vars.back().symbol) == 1;
    };
    return contiguous(sides_[1]) || !contiguous(sides_[0]);
  }

  index::Expr flatten(index::Expr expr, std::span<const loop::Var> vars, index::Expr flat) const {
    if (vars.size() == 1 && pool_.symbol(vars[0].symbol) == flat) return expr;
    Axis axis;
    axis.vars.assign(vars.begin(), vars.end());
    Replacements replacements;
    expand_axis(pool_, axis, flat, replacements);
    return pool_.substitute(expr, replacements);
  }

  void make_axes() {
    if (!plan_.window && shared_ == 0)
      plan_.window = find_window(pool_, kernel_.statements[0], plan_.statement, sides_[0].operand.value,
                                 sides_[0].vars, depth_, nullptr);
    plan_.depth = make_axis(pool_, depth_);
    auto& columns = sides_[1].vars;
    keep_suffix(columns, column_start(columns));
    plan_.columns = make_axis(pool_, columns);
    auto& rows = sides_[0].vars;
    keep_suffix(rows, plan_.window ? rows.size() - 2 : row_start(rows));
    plan_.rows = make_axis(pool_, rows);
    std::ranges::stable_sort(batch_, {}, [&](const loop::Var& var) {
      return std::ranges::find(plan_.statement.vars, var.symbol, &loop::Var::symbol) -
             plan_.statement.vars.begin();
    });
    plan_.batch = make_axis(pool_, batch_);
  }

  void keep_suffix(std::vector<loop::Var>& vars, size_t start) {
    batch_.insert(batch_.end(), vars.begin(), vars.begin() + static_cast<std::ptrdiff_t>(start));
    vars.erase(vars.begin(), vars.begin() + static_cast<std::ptrdiff_t>(start));
  }

  /// The first variable from which on the columns of one vector are stored evenly spaced.
  size_t column_start(const std::vector<loop::Var>& vars) {
    for (size_t start = 0; start + 1 < vars.size(); ++start) {
      std::span suffix(vars.begin() + static_cast<std::ptrdiff_t>(start), vars.end());
      const int64_t extent = extent_of(suffix);
      auto group = pool_.new_symbol({0, std::max<int64_t>(0, ceil_div(extent, plan_.lanes) - 1)});
      auto lane = pool_.new_symbol({0, plan_.lanes - 1});
      auto flat = pool_.new_symbol({0, std::max<int64_t>(0, extent - 1)});
      auto address = flatten(store_address(), suffix, pool_.symbol(flat));
      if (pool_.coefficient(address, flat)) return start;
      auto split = pool_.add(pool_.mul(pool_.symbol(group), plan_.lanes), pool_.symbol(lane));
      const std::pair<index::Symbol, index::Expr> replacement{flat, split};
      if (pool_.coefficient(pool_.substitute(address, {&replacement, 1}), lane)) return start;
    }
    return vars.empty() ? 0 : vars.size() - 1;
  }

  /// The first variable from which on the rows, and each row's depth, are evenly spaced in memory, if enough
  /// rows remain; else all are kept.
  size_t row_start(const std::vector<loop::Var>& vars) {
    if (sides_[0].operand.load == none) return 0;
    const auto& load = op(sides_[0].operand.load);
    if (kernel_.buffers[load.buffer].packing || load.index.size() != 1) return 0;
    if (!pool_.coefficient(flatten(load.index[0], depth_, pool_.symbol(plan_.depth.symbol)),
                           plan_.depth.symbol))
      return 0;
    for (size_t start = 0; start < vars.size(); ++start) {
      std::span suffix(vars.begin() + static_cast<std::ptrdiff_t>(start), vars.end());
      if (start > 0 && extent_of(suffix) < 16) break;
      auto flat = pool_.new_symbol({0, std::max<int64_t>(0, extent_of(suffix) - 1)});
      if (pool_.coefficient(flatten(load.index[0], suffix, pool_.symbol(flat)), flat)) return start;
    }
    return 0;
  }

  static int64_t extent_of(std::span<const loop::Var> vars) {
    int64_t extent = 1;
    for (const auto& var : vars) extent *= var.extent;
    return extent;
  }

  /// A constant that is, or may be, packed: one that nothing else of the kernel reads, since the packed form serves this alone.
  bool is_constant(const Operand& operand) const {
    if (operand.load == none) return false;
    const auto id = op(operand.load).buffer;
    const auto& buffer = kernel_.buffers[id];
    return buffer.kind == FE_BUFFER_CONSTANT && (buffer.packing || assume_packed_) && loads_of(id) == 1;
  }
  size_t loads_of(loop::BufferId buffer) const {
    return static_cast<size_t>(std::ranges::count_if(plan_.statement.ops, [&](const loop::BodyOp& each) {
      return each.code == FE_OP_LOAD && each.buffer == buffer;
    }));
  }
  bool is_packed(const Operand& operand) const {
    return operand.load != none && kernel_.buffers[op(operand.load).buffer].packing.has_value();
  }

  /// The address by flat coordinates and how it moves along `across` and the depth; false when unevenly.
  bool find_strides(Operand& operand, const Axis& across) {
    if (operand.load == none || is_packed(operand)) return false;
    Replacements replacements;
    for (const auto* axis : {&plan_.batch, &plan_.rows, &plan_.columns, &plan_.depth})
      if (axis->vars.size() != 1) expand_axis(pool_, *axis, pool_.symbol(axis->symbol), replacements);
    operand.address = pool_.substitute(op(operand.load).index[0], replacements);
    auto stride =
        across.extent <= 1 ? std::optional<int64_t>(1) : pool_.coefficient(operand.address, across.symbol);
    auto step = plan_.depth.extent <= 1 ? std::optional<int64_t>(0)
                                        : pool_.coefficient(operand.address, plan_.depth.symbol);
    if (!stride || !step) return false;
    operand.stride = *stride;
    operand.step = *step;
    return true;
  }

  void use_constant(Operand& operand) {
    operand.access = Access::constant;
    operand.dtype = op(operand.load).dtype;
    std::vector<loop::Var> vars;
    const std::array roots{operand.load};
    auto needed = needed_operations(plan_.statement, pool_, roots);
    for (const auto& var : plan_.batch.vars)
      if (depends_on(plan_.statement, pool_, needed, var.symbol)) vars.push_back(var);
    operand.batch = make_axis(pool_, vars);
    index::Expr number = pool_.constant(0);
    for (const auto& var : vars) number = pool_.add(pool_.mul(number, var.extent), pool_.symbol(var.symbol));
    Replacements replacements;
    if (plan_.batch.vars.size() != 1)
      expand_axis(pool_, plan_.batch, pool_.symbol(plan_.batch.symbol), replacements);
    operand.batch_number = pool_.substitute(number, replacements);
  }

  bool reach_rows() {
    auto& row = plan_.row = sides_[0].operand;
    if (plan_.window) {
      row.access = Access::window;
      row.dtype = plan_.accumulator;
    } else if (find_strides(row, plan_.rows) && !apart(row, plan_.columns.extent)) {
      row.access = Access::direct;
      row.dtype = op(row.load).dtype;
    } else if (is_constant(row)) {
      use_constant(row);
      row.stride = plan_.depth.extent;
      row.step = 1;
    } else if (row.load == none && plan_.columns.extent == 1) {
      return false;  // one column gives nothing to repay the packing
    } else {
      pack_rows();
    }
    return true;
  }

  void pack_rows() {
    auto& row = plan_.row;
    row.access = Access::block;
    row.dtype = plan_.accumulator;
    const bool across = moves_by_one(row, plan_.rows);
    row.depth_inside = moves_by_one(row, plan_.depth) &&
                       (!across || plan_.depth.vars.back().extent >= plan_.rows.vars.back().extent);
  }

  /// What is read in place and narrower than the sums is widened once, and not again for each block of the other side: an element
  /// that is multiplied with a vector would take several instructions instead of one.
  void widen() {
    constexpr int64_t repays_rows = 32, repays_columns = 64;  // columns, rows
    const auto is_narrow = [&](const Operand& operand) {
      return operand.access == Access::direct && bits_of(operand.dtype) < bits_of(plan_.accumulator);
    };
    if (is_narrow(plan_.row) && plan_.columns.extent >= repays_rows) pack_rows();
    if (is_narrow(plan_.column) && plan_.rows.extent >= repays_columns && shared_ == 0) {
      plan_.column.access = Access::block;
      plan_.column.dtype = plan_.accumulator;
    }
  }

  /// Whether neighbours along the axis' last variable are neighbours in memory, where most of what the operand is computed of lies.
  bool moves_by_one(const Operand& operand, const Axis& axis) const {
    const auto load = largest_load(operand);
    return load != none && !axis.vars.empty() && op(load).index.size() == 1 &&
           pool_.coefficient(op(load).index[0], axis.vars.back().symbol) == 1;
  }
  loop::OpId largest_load(const Operand& operand) const {
    const std::array roots{operand.value};
    const auto needed = needed_operations(plan_.statement, pool_, roots);
    loop::OpId found = none;
    const auto elements = [&](loop::OpId id) { return kernel_.buffers[op(id).buffer].elements(); };
    for (loop::OpId id = 0; id < plan_.statement.ops.size(); ++id)
      if (needed[id] && op(id).code == FE_OP_LOAD && (found == none || elements(id) > elements(found)))
        found = id;
    return found;
  }

  /// Whether the steps of an operand lie so far apart that reading it in place, again for every block of the other side, costs
  /// more than a packed copy: each step is a line, and soon a page, of its own, and all of them are too many for the cache.
  bool apart(const Operand& operand, int64_t others) const {
    constexpr int64_t repays = 32, far = 1024;
    const int64_t step = std::abs(operand.step) * bits_of(op(operand.load).dtype) / 8;
    return operand.stride == 1 && others >= repays && step >= far &&
           plan_.depth.extent * step > target_.l2_bytes / 2;
  }

  bool reach_columns() {
    auto& column = plan_.column = sides_[1].operand;
    const bool even = find_strides(column, plan_.columns);
    if (is_constant(column)) {
      use_constant(column);
    } else if (even && column.stride == 1 && !apart(column, plan_.rows.extent)) {
      column.access = Access::direct;
      column.dtype = op(column.load).dtype;
    } else {
      // One row gives nothing to repay the packing; a plain reduction reads each element once.
      if (plan_.rows.extent == 1) return false;
      column.access = Access::block;
      column.transposed = even ? column.step == 1
                               : column.load == none && moves_by_one(column, plan_.depth) &&
                                     !moves_by_one(column, plan_.columns);
      column.dtype = plan_.accumulator;
    }
    return true;
  }

  /// Whether the machine's matrix tiles compute it: bf16 rows in place, bf16 columns packed for them, a depth of whole tiles.
  bool has_matrix_tiles() const {
    constexpr int64_t least_rows = 8;  // fewer are bound by memory, whoever multiplies
    return target_.matrix_tiles && !plan_.window && config_.rows == 0 && plan_.accumulator == f32 &&
           plan_.row.access == Access::direct && plan_.row.dtype == bf16 && plan_.row.step == 1 &&
           plan_.column.access == Access::constant && plan_.column.dtype == bf16 && plan_.depth.extent > 0 &&
           plan_.depth.extent % matrix_tile_depth == 0 && plan_.rows.extent >= least_rows;
  }

  void use_matrix_tiles() {
    plan_.matrix_tiles = true;
    plan_.block_rows = 2 * matrix_tile_rows;
    plan_.block_vectors = 2;
    // A tile of products takes as many cycles as it has rows.
    const auto tiles = [](int64_t count) { return static_cast<double>(ceil_div(count, matrix_tile_rows)); };
    const int64_t steps = plan_.depth.extent / matrix_tile_depth;
    plan_.cycles = static_cast<double>(plan_.batch.extent) * tiles(plan_.rows.extent) *
                   tiles(plan_.columns.extent) * static_cast<double>(steps) * matrix_tile_rows;
  }

  /// The register block that the configuration asks for; false where it cannot be.
  bool take_block() {
    const int64_t r = config_.rows, v = config_.vectors;
    if (r < 1 || v < 1 || v > 8 || !fits_registers(r, v)) return false;
    plan_.block_rows = config_.rows;
    plan_.block_vectors = config_.vectors;
    return true;
  }

  /// Sums, the columns of a step and a row's element. Without fused multiply-adds products need places too, some at a time so that
  /// none waits for the one before.
  bool fits_registers(int64_t r, int64_t v) const {
    const int64_t products = target_.fused_multiply_add ? 0 : 4;
    return r * v + v + (v > 1) + products <= static_cast<int64_t>(target_.vector_registers);
  }

  /// The register block with the least estimated time: the fused multiply-adds or the loads, whichever take
  /// longer, with the latency of a chain of sums as the floor; edges count as they are.
  void choose_block() {
    const int64_t rows = plan_.line_rows(), vectors = ceil_div(plan_.columns.extent, plan_.lanes);
    auto time = [&](int64_t r, int64_t v) {
      if (plan_.channelwise) return channelwise_time(r, v);
      const double sums = static_cast<double>(r * v) * 0.5, loads = static_cast<double>(r + v) * 0.5;
      return std::max({sums, loads, 4.0}) + 0.012 * static_cast<double>(r + v * 16) +
             8.0 * static_cast<double>(r * v) / 512.0;
    };
    double best = std::numeric_limits<double>::max();
    for (int64_t v = 1; v <= std::min<int64_t>(8, std::max<int64_t>(1, vectors)); ++v)
      for (int64_t r = 1; r <= std::max<int64_t>(1, rows) && (fits_registers(r, v) || r * v == 1); ++r) {
        const int64_t full_rows = rows / r, rest_rows = rows % r, full = vectors / v, rest = vectors % v;
        double total = static_cast<double>(full_rows * full) * time(r, v);
        if (rest_rows) total += static_cast<double>(full) * time(rest_rows, v);
        if (rest) total += static_cast<double>(full_rows) * time(r, rest);
        if (rest_rows && rest) total += time(rest_rows, rest);
        // Each further micro-kernel takes time to compile.
        total *= 1.0 + 0.015 * ((rest_rows ? 2 : 1) * (rest ? 2 : 1) - 1);
        plan_.blocks.push_back({static_cast<int>(r), static_cast<int>(v), total});
        if (total < best) {
          best = total;
          plan_.block_rows = static_cast<int>(r);
          plan_.block_vectors = static_cast<int>(v);
        }
      }
    // A channelwise time is that of a line of taps, any other that of one step.
    const auto steps = static_cast<double>(plan_.channelwise ? plan_.window->line_taps : plan_.depth.extent);
    const auto lines = static_cast<double>(plan_.batch.extent * (plan_.window ? plan_.window->lines : 1));
    plan_.cycles = best * steps * lines;
  }

  /// Of a channelwise block and one line of taps: results that are neighbours read most of the same positions.
  double channelwise_time(int64_t r, int64_t v) const {
    const auto taps = plan_.window->place_taps;
    const int64_t positions = plan_.window->place_step == 1 ? r + taps - 1 : r * taps;
    const auto sums = static_cast<double>(r * v * taps) * 0.5,
               loads = static_cast<double>((positions + taps) * v) * 0.5;
    const bool spills = (r + taps) * v + 2 > static_cast<int64_t>(target_.vector_registers);
    return std::max({sums, loads, 4.0 * static_cast<double>(taps)}) * (spills ? 1.3 : 1.0) + 2.0;
  }

  /// A task takes whole lines of windows. Neighbouring tasks share the copy, except channelwise, where each needs its own
  /// channels only.
  void choose_window_tiles(int64_t panels, int64_t each) {
    const auto& window = *plan_.window;
    const int64_t bytes = bits_of(plan_.accumulator) / 8;
    // Channelwise each task copies its own channels: enough of them that what it reads is several cache lines in a row.
    constexpr int64_t cache_line = 64, least_run = 4;
    int64_t column_tiles = 1;
    if (plan_.channelwise)
      column_tiles =
          ceil_div(panels, std::max<int64_t>(1, least_run * cache_line / (plan_.block_columns() * bytes)));
    const int64_t channels =
        plan_.channelwise ? ceil_div(panels, column_tiles) * plan_.block_columns() : window.channels;
    const int64_t line_bytes = std::max<int64_t>(1, window.width() * channels * window.line_step * bytes);
    const int64_t budget = std::max<int64_t>(1, target_.l2_bytes / 4 / line_bytes);
    const int64_t least_lines = std::min(window.lines, ceil_div(window.lines, budget));
    // Weights that do not stay in the cache are read once for each tile of lines: then tasks divide the columns.
    const int64_t weight_bytes = plan_.depth.extent * plan_.columns.extent * bytes;
    if (!plan_.channelwise && weight_bytes > target_.l2_bytes / 2) column_tiles = std::min(panels, each);
    const int64_t line_tiles = std::clamp<int64_t>(ceil_div(each, column_tiles), least_lines, window.lines);
    if (!plan_.channelwise && column_tiles == 1)
      column_tiles = std::min(panels, ceil_div(std::min<int64_t>(each, 16), line_tiles));
    plan_.columns_first = true;
    const int64_t lines = ceil_div(window.lines, line_tiles), column_panels = ceil_div(panels, column_tiles);
    plan_.tile_rows = lines * window.places;
    plan_.tile_columns = column_panels * plan_.block_columns();
    plan_.row_tiles = ceil_div(window.lines, lines);
    plan_.column_tiles = ceil_div(panels, column_panels);
  }

  /// The passes over the depth, as in Goto and van de Geijn, "Anatomy of high-performance matrix multiplication" (2008): a panel of
  /// columns stays in the first-level cache and the tile's rows in the second-level one, as deep as a pass goes.
  void choose_depth_tile() {
    plan_.depth_tile = plan_.depth.extent;
    if (plan_.window || plan_.matrix_tiles || plan_.rows.extent <= 2 * plan_.block_rows) return;
    const int64_t bytes = bits_of(plan_.accumulator) / 8, depth = plan_.depth.extent;
    const int64_t most = std::clamp<int64_t>(target_.l1_bytes / (plan_.block_columns() * bytes), 256, 512);
    if (depth <= most + most / 2 || plan_.rows.extent * depth * bytes <= row_budget()) return;
    constexpr int64_t even = 16;  // whole vectors, and whole turns of the innermost loop
    plan_.depth_tile = ceil_div(ceil_div(depth, ceil_div(depth, most)), even) * even;
  }

  /// Bytes of the second-level cache that rows may take: the panel that meets them and the results need the rest.
  int64_t row_budget() const { return target_.l2_bytes * 9 / 16; }

  /// Several passes over the depth: nothing that is packed is shared between tasks, so each takes all columns if it can, and no
  /// fewer than make the rows worth reading.
  void choose_deep_tiles(int64_t blocks, int64_t panels, int64_t each, int64_t row_limit) {
    const int64_t bytes = bits_of(plan_.accumulator) / 8, width = plan_.block_columns();
    const int64_t beside = std::max(std::min(row_limit, blocks) * plan_.block_rows,
                                    plan_.column.access == Access::block ? plan_.depth_tile : 0);
    const int64_t most_panels =
        std::max<int64_t>(1, target_.l3_bytes_per_core / 4 / (bytes * width * beside));
    constexpr int64_t least_columns = 64, least_blocks = 4;
    const int64_t least_panels = ceil_div(least_columns, width);
    int64_t row_tiles = ceil_div(blocks, row_limit);
    const auto columns_for = [&](int64_t rows) {
      return std::max(ceil_div(panels, most_panels),
                      std::min(ceil_div(panels, least_panels), ceil_div(each, rows)));
    };
    int64_t column_tiles = columns_for(row_tiles);
    if (plan_.row.access == Access::block) {
      // Each tile of columns packs the rows again, each tile of rows the columns, where those are packed.
      const auto packed = [&](int64_t rows) {
        return columns_for(rows) * plan_.rows.extent +
               (plan_.column.access == Access::block ? rows * plan_.columns.extent : 0);
      };
      for (int64_t rows = row_tiles + 1; rows <= std::min(ceil_div(blocks, least_blocks), each); ++rows)
        if (packed(rows) < packed(row_tiles)) row_tiles = rows;
      column_tiles = columns_for(row_tiles);
    }
    row_tiles = std::max(row_tiles, std::min(ceil_div(blocks, least_blocks),
                                             ceil_div(std::min<int64_t>(each, 16), column_tiles)));
    set_tiles(blocks, panels, row_tiles, column_tiles);
  }

  void set_tiles(int64_t blocks, int64_t panels, int64_t row_tiles, int64_t column_tiles) {
    const int64_t row_blocks = ceil_div(blocks, row_tiles), column_panels = ceil_div(panels, column_tiles);
    plan_.tile_rows = row_blocks * plan_.block_rows;
    plan_.tile_columns = column_panels * plan_.block_columns();
    plan_.row_tiles = plan_.rows.extent == 0 ? 0 : ceil_div(blocks, row_blocks);
    plan_.column_tiles = plan_.columns.extent == 0 ? 0 : ceil_div(panels, column_panels);
  }

  /// Tiles small enough that what a task reads again stays in the second-level cache, and enough tasks to
  /// balance many workers, as long as each is worth its hand-over.
  void choose_tiles() {
    const int64_t blocks = ceil_div(std::max<int64_t>(1, plan_.rows.extent), plan_.block_rows);
    const int64_t panels = ceil_div(std::max<int64_t>(1, plan_.columns.extent), plan_.block_columns());
    const int64_t depth_bytes = std::max<int64_t>(1, plan_.depth_tile) * bits_of(plan_.accumulator) / 8;
    const int64_t budget = target_.l2_bytes / 2;
    const int64_t row_limit = std::max<int64_t>(1, row_budget() / (depth_bytes * plan_.block_rows));
    const int64_t panel_limit = std::max<int64_t>(1, budget / (depth_bytes * plan_.block_columns()));
    // One row is bound by memory and a few are nearly: they count as what would take the arithmetic as long.
    const double work =
        static_cast<double>(plan_.batch.extent) *
        static_cast<double>(std::max<int64_t>(plan_.rows.extent == 1 ? 64 : 16, plan_.rows.extent)) *
        static_cast<double>(plan_.columns.extent) * static_cast<double>(plan_.depth.extent);
    // Eight tasks as soon as each is worth its hand-over, more only when they are long enough to repay
    // smaller tiles.
    const auto own = static_cast<int64_t>(
        std::max(std::clamp(work / (1 << 20), 1.0, 8.0), std::min(work / (1 << 22), 64.0)));
    const int64_t wanted = config_.tasks < 0   ? std::max<int64_t>(1, own / 4)
                           : config_.tasks > 0 ? own * 4
                                               : own;
    const int64_t each =
        ceil_div(wanted, std::max<int64_t>(1, plan_.batch.extent));  // tasks of one batch entry

    if (shared_ > 0) return set_tiles(blocks, panels, blocks, 1);
    if (plan_.window) return choose_window_tiles(panels, each);
    if (plan_.deep()) return choose_deep_tiles(blocks, panels, each, row_limit);
    int64_t row_tiles = 1, column_tiles = 1;
    if (plan_.column.access == Access::block) {
      // What a task packs serves all its rows.
      column_tiles = std::max(ceil_div(panels, panel_limit), std::min(panels, each));
      row_tiles = std::min({blocks, ceil_div(std::min<int64_t>(each, 16), column_tiles)});
      if (plan_.row.access == Access::block) row_tiles = std::max(row_tiles, ceil_div(blocks, row_limit));
    } else {
      row_tiles = ceil_div(blocks, row_limit);
      plan_.columns_first = plan_.row.access == Access::block;
      // Each worker packs all rows where they fit one tile: columns are then read once, and are enough to repay that.
      constexpr int64_t repays = 64;
      const bool all_rows = row_tiles == 1 && plan_.columns.extent >= repays * each;
      if (plan_.columns_first && !all_rows) {
        row_tiles = std::max(row_tiles, std::min(blocks, each));
        column_tiles = std::min(panels, ceil_div(std::min<int64_t>(each, 16), row_tiles));
      } else {
        column_tiles = std::min(panels, ceil_div(each, row_tiles));
        if (!plan_.columns_first)
          row_tiles = std::max(row_tiles, std::min(blocks, ceil_div(each, column_tiles)));
      }
    }
    set_tiles(blocks, panels, row_tiles, column_tiles);
    plan_.rows_outside =
        plan_.tile_columns * depth_bytes <= budget && plan_.tile_rows * depth_bytes > row_budget();
  }

  /// A packed buffer must be the constant operand it was packed for, in the layout that this plan would
  /// propose.
  bool packings_match() const {
    for (size_t b = 0; b < kernel_.buffers.size(); ++b) {
      if (!kernel_.buffers[b].packing) continue;
      bool used = false;
      for (bool columns : {false, true}) {
        const auto& operand = columns ? plan_.column : plan_.row;
        if (operand.load == none || op(operand.load).buffer != b) continue;
        if (operand.access != Access::constant) return false;
        if (kernel_.buffers[b].packing->dims != packed_dims(plan_, columns)) return false;
        used = true;
      }
      if (!used || loads_of(static_cast<loop::BufferId>(b)) != 1) return false;
    }
    return true;
  }

  const Target& target_;
  loop::Kernel& kernel_;
  index::Pool& pool_;
  bool assume_packed_;
  const ContractConfig config_;
  std::ptrdiff_t shared_ = 0;  ///< loops that other statements share; 0: the kernel is this contraction
  ContractPlan plan_;
  Side sides_[2];  // rows, columns
  std::vector<loop::Var> batch_, depth_;
};

}  // namespace

std::optional<ContractPlan> plan_contract(const Target& target, loop::Kernel& kernel, bool assume_packed,
                                          const ContractConfig& config) {
  return Planner(target, kernel, assume_packed, config).plan();
}

std::optional<ContractPlan> plan_contract_inside(const Target& target, loop::Kernel& kernel, size_t statement,
                                                 const ContractConfig& config) {
  return Planner(target, kernel, false, config).plan_inside(statement);
}

std::vector<int64_t> packed_dims(const ContractPlan& plan, bool columns) {
  if (!columns) return {plan.row.batch.extent, plan.rows.extent, plan.depth.extent};
  const int64_t panels = ceil_div(plan.columns.extent, plan.block_columns());
  if (plan.matrix_tiles)
    return {plan.column.batch.extent, panels, plan.depth.extent / 2, plan.block_columns(), 2};
  return {plan.column.batch.extent, panels, plan.depth.extent, plan.block_columns()};
}

}  // namespace ferrite::emitter
