// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "backends/llvm/gemm/plan.h"

#include <algorithm>
#include <array>
#include <bit>

#include "backends/llvm/analysis/statement_values.h"
#include "backends/llvm/gemm/tile_sizes.h"
#include "backends/llvm/gemm/window.h"
#include "backends/llvm/gemm/winograd.h"

namespace ferrite::emitter {
namespace {

using loop::none;

/// Builds the plan step by step; a step returns false if the emitter does not handle the kernel.
class Planner {
 public:
  Planner(const Target& target, loop::Kernel& kernel, bool assume_packed, const GemmConfig& config)
      : target_(target),
        kernel_(kernel),
        pool_(kernel.pool),
        assume_packed_(assume_packed),
        config_(config) {}

  std::optional<GemmPlan> plan() { return merge() ? finish_plan() : std::nullopt; }

  /// The plan for a GPU, whose blocks cover all rows and columns.
  std::optional<GemmPlan> plan_of_grid() {
    windows_ = false;
    if (!merge() || !find_product() || !find_stores() || !classify()) return std::nullopt;
    if (sides_[0].vars.empty() || sides_[1].vars.empty()) return std::nullopt;
    sort_depth();
    plan_.depth = make_axis(pool_, depth_);
    plan_.rows = make_axis(pool_, sides_[0].vars);
    plan_.columns = make_axis(pool_, sides_[1].vars);
    plan_.batch = make_axis(pool_, batch_);
    plan_.row = sides_[0].operand;
    plan_.column = sides_[1].operand;
    plan_.in_lines = true;
    const std::array sides = {std::pair(&plan_.row, &plan_.rows), std::pair(&plan_.column, &plan_.columns)};
    for (const auto& [operand, axis] : sides)
      if (takes_packed(*operand) &&
          !(find_strides(*operand, *axis) && (operand->step == 1 || operand->stride == 1)))
        use_packed(*operand);
    if (!packings_match(plan_, kernel_)) return std::nullopt;
    for (const auto& [operand, axis] : sides)
      if (operand->access == Access::packed) read_lines(*operand, *axis);
    flatten_buffers(kernel_);
    return std::move(plan_);
  }

  /// The plan of one statement that shares loops with others.
  std::optional<GemmPlan> plan_inside(size_t statement) {
    plan_.statement = kernel_.statements[statement];
    if (plan_.statement.kind != FE_STATEMENT_CONTRACT || plan_.statement.reductions.size() != 1 ||
        !plan_.statement.carries.empty())
      return std::nullopt;
    make_addresses(kernel_, plan_.statement);
    shared_ = kernel_.shared;
    return finish_plan();
  }

 private:
  bool merge() {
    auto merged = merge_statements(kernel_);
    if (!merged) return false;
    plan_.statement = std::move(merged->statement);
    plan_.forwards = std::move(merged->forwards);
    return true;
  }

  std::optional<GemmPlan> finish_plan() {
    if (!find_product() || !find_stores() || !classify()) return std::nullopt;
    make_axes();
    if (!reach_rows() || !reach_columns()) return std::nullopt;
    if (config_.winograd && !(plan_.winograd = find_winograd(plan_))) return std::nullopt;
    plan_.amx = uses_amx();
    if (plan_.amx)
      plan_.row.dtype = bf16;
    else if (plan_.dots == 0)
      widen();
    if (!choose_sizes(target_, config_, shared_ > 0, plan_)) return std::nullopt;
    if (!packings_match(plan_, kernel_)) return std::nullopt;
    flatten_buffers(kernel_);
    return std::move(plan_);
  }

  struct Side {
    Operand operand;
    std::vector<bool> needed;
    std::vector<loop::Var> vars;
  };

  const loop::BodyOp& op(loop::OpId id) const { return plan_.statement.ops[id]; }

  /// The reduced element must be a product of two floats that is summed in f32 or f64.
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

  /// The unmasked load that `value` is, apart from casts to wider floats.
  loop::OpId plain_load(loop::OpId value) const {
    while (op(value).is_prim() && op(value).prim() == Prim::cast_) {
      if (!widens_float(plan_.statement, op(value))) return none;
      value = op(value).a;
    }
    const auto& load = op(value);
    if (load.dtype == f16 && !target_.half_conversion) return none;
    const bool known = load.dtype == f16 || load.dtype == bf16 || load.dtype == f32 || load.dtype == f64;
    return load.code == FE_OP_LOAD && load.a == none && known ? value : none;
  }

  /// Every stored value must depend on the reduction variables only through the sum.
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
    for (auto& side : sides_) sort_by_stride(side.vars, store_address());
    if (shared_ > 0) return take_shared_rows();
    if (windows_ && find_channel()) return true;
    if (!second_has_columns()) std::swap(sides_[0], sides_[1]);
    sort_columns_by_load();
    return true;
  }

  /// Whether it is a shared loop other than the last.
  bool is_pinned(const loop::Var& var) const {
    return shared_ > 0 && std::ranges::find(plan_.statement.vars, var.symbol, &loop::Var::symbol) -
                                  plan_.statement.vars.begin() <
                              shared_ - 1;
  }

  /// The rows are the last shared loop, the columns the statement's own loops.
  bool take_shared_rows() {
    const auto row = plan_.statement.vars[static_cast<size_t>(shared_ - 1)].symbol;
    const auto is_row = [&](const Side& side) { return side.vars.size() == 1 && side.vars[0].symbol == row; };
    if (!is_row(sides_[0])) std::swap(sides_[0], sides_[1]);
    return is_row(sides_[0]) && !sides_[1].vars.empty();
  }

  /// Channelwise contraction: one operand has windows, and both depend on the variable along which the output
  /// is contiguous. That variable then takes the role of the columns.
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

  /// Sorts the variables by their stride in an address, the smallest last, if all strides are constant.
  void sort_by_stride(std::vector<loop::Var>& vars, index::Expr address) const {
    const auto stride = [&](const loop::Var& var) { return pool_.coefficient(address, var.symbol); };
    if (std::ranges::all_of(vars, [&](const loop::Var& var) { return stride(var).has_value(); }))
      std::ranges::stable_sort(vars, std::ranges::greater(),
                               [&](const loop::Var& var) { return std::abs(*stride(var)); });
  }

  /// Sorts the columns by their stride in the operand, the smallest last, where neither they nor the depth
  /// are contiguous in it otherwise. A depth longer than the rows reads more elements of the operand than are
  /// stored.
  void sort_columns_by_load() {
    constexpr int64_t least_run = 8;
    auto& vars = sides_[1].vars;
    const auto load = largest_load(sides_[1].operand);
    if (load == none || op(load).index.size() != 1 || extent_of(depth_) <= extent_of(sides_[0].vars) ||
        kernel_.buffers[op(load).buffer].kind == FE_BUFFER_CONSTANT)
      return;
    const auto is_run = [&](const loop::Var& var) {
      return pool_.coefficient(op(load).index[0], var.symbol) == 1 && var.extent >= least_run;
    };
    if (std::ranges::any_of(vars, is_run) && !is_run(vars.back()) && std::ranges::none_of(depth_, is_run))
      sort_by_stride(vars, op(load).index[0]);
  }

  /// Sorts the depth by memory order: that of the rows, unless they are a constant, which can be packed.
  void sort_depth() {
    const auto is_variable = [&](const Operand& operand) {
      const auto load = largest_load(operand);
      return load != none && kernel_.buffers[op(load).buffer].kind != FE_BUFFER_CONSTANT;
    };
    const auto load = largest_load(sides_[is_variable(sides_[0].operand) ? 0 : 1].operand);
    if (load == none || op(load).index.size() != 1) return;
    sort_by_stride(depth_, op(load).index[0]);
  }

  /// The side along which the output is contiguous provides the columns.
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
    if (!plan_.window && shared_ == 0) {
      auto depth = depth_;
      auto window = find_window(pool_, kernel_.statements[0], plan_.statement, sides_[0].operand.value,
                                sides_[0].vars, depth, nullptr);
      if (window && !exceeds_cache(*window, plan_.statement.ops[sides_[0].operand.value].dtype, target_)) {
        plan_.window = std::move(window);
        depth_ = std::move(depth);
      }
    }
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

  /// The first variable from which on the columns of a vector are stored with a constant stride.
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

  /// The first variable from which on the rows, and each row's depth, have constant strides, if enough rows
  /// remain; else 0.
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

  /// Whether the operand is packed, or can be: no other load may read it. Operands that are not constant are
  /// packed in each run, which only Winograd blocks are worth.
  bool takes_packed(const Operand& operand, bool worth_each_run = false) const {
    if (operand.load == none) return false;
    const auto id = op(operand.load).buffer;
    const auto& buffer = kernel_.buffers[id];
    const bool can_be =
        buffer.kind == FE_BUFFER_CONSTANT || (buffer.kind == FE_BUFFER_INPUT && worth_each_run);
    return (buffer.packing || (assume_packed_ && can_be)) && loads_of(plan_.statement, id) == 1;
  }
  bool is_packed(const Operand& operand) const {
    return operand.load != none && kernel_.buffers[op(operand.load).buffer].packing.has_value();
  }

  /// Finds the address by flat coordinates and its strides along `across` and depth; false if not constant.
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

  void use_packed(Operand& operand) {
    operand.access = Access::packed;
    operand.each_run = kernel_.buffers[op(operand.load).buffer].kind != FE_BUFFER_CONSTANT;
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

  /// Turns the load of an operand with the layout of rows into a load of a one-dimensional buffer.
  void read_lines(const Operand& operand, const Axis& across) {
    auto& load = plan_.statement.ops[operand.load];
    const auto line = pool_.add(pool_.mul(operand.batch_number, across.extent), pool_.symbol(across.symbol));
    load.index = {pool_.add(pool_.mul(line, plan_.depth.extent), pool_.symbol(plan_.depth.symbol))};
    auto& buffer = kernel_.buffers[load.buffer];
    buffer.packing.reset();
    buffer.dims = {operand.batch.extent * across.extent * plan_.depth.extent};
    buffer.strides = {1};
    buffer.offset = 0;
  }

  bool reach_rows() {
    auto& row = plan_.row = sides_[0].operand;
    if (plan_.window) {
      row.access = Access::window;
      row.dtype = plan_.accumulator;
    } else if (find_strides(row, plan_.rows) && !apart(row, plan_.columns.extent) && !meet(row)) {
      row.access = Access::direct;
      row.dtype = op(row.load).dtype;
    } else if (takes_packed(row)) {
      use_packed(row);
      row.stride = plan_.depth.extent;
      row.step = 1;
    } else if (row.load == none && plan_.columns.extent == 1) {
      return false;  // packing does not pay for a single column
    } else {
      pack_rows();
    }
    return true;
  }

  void pack_rows() {
    auto& row = plan_.row;
    row.access = Access::block;
    row.dtype = plan_.accumulator;
    row.depth_inside = moves_along_depth(row, plan_.rows, 1);
  }

  /// Packs operands that are read in place and narrower than the sums. They are then widened once, not again
  /// for each block of the other side, which takes several instructions per element.
  void widen() {
    constexpr int64_t repays_rows = 32, repays_columns = 64;  // columns and rows from which on this pays
    const auto is_narrow = [&](const Operand& operand) {
      return operand.access == Access::direct && bits_of(operand.dtype) < bits_of(plan_.accumulator);
    };
    if (is_narrow(plan_.row) && plan_.columns.extent >= repays_rows) pack_rows();
    if (is_narrow(plan_.column) && plan_.rows.extent >= repays_columns && shared_ == 0) {
      plan_.column.access = Access::block;
      plan_.column.dtype = plan_.accumulator;
      plan_.far_columns = false;
    }
  }

  /// Whether neighbours along the last variable of the axis are at most so many elements apart in the
  /// operand's largest load.
  bool moves_by(const Operand& operand, const Axis& axis, int64_t most) const {
    const auto load = largest_load(operand);
    if (load == none || axis.vars.empty() || op(load).index.size() != 1) return false;
    const auto step = pool_.coefficient(op(load).index[0], axis.vars.back().symbol);
    return step && *step >= 1 && *step <= most;
  }
  /// Whether vectors along the depth read neighbours that are at most so many elements apart, and vectors
  /// along `across` do not, or in shorter runs.
  bool moves_along_depth(const Operand& operand, const Axis& across, int64_t most) const {
    return moves_by(operand, plan_.depth, most) &&
           (!moves_by(operand, across, 1) || plan_.depth.vars.back().extent >= across.vars.back().extent);
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

  /// Whether rows are whole pages apart. The lines of a register block then map to one set of the first-level
  /// cache and evict each other. A packed copy pays only for many columns.
  bool meet(const Operand& row) const {
    constexpr int64_t repays_rows = 32, repays = 1024;
    const int64_t stride = row.stride * bits_of(op(row.load).dtype) / 8;
    return shared_ == 0 && stride % page_bytes == 0 && plan_.rows.extent >= repays_rows &&
           plan_.columns.extent >= repays && plan_.depth.extent > plan_.lanes;
  }

  /// Whether depth steps are so far apart that reading in place, once per block of the other side, costs more
  /// than a packed copy: each step is in another line, or page, and all lines exceed the cache.
  bool apart(const Operand& operand, int64_t others) const {
    constexpr int64_t repays = 32;
    return others >= repays && is_far(operand);
  }
  bool is_far(const Operand& operand) const {
    constexpr int64_t far = 1024;
    const int64_t step = std::abs(operand.step) * bits_of(op(operand.load).dtype) / 8;
    return operand.stride == 1 && step >= far && plan_.depth.extent * step > target_.l2_bytes / 2;
  }

  bool reach_columns() {
    auto& column = plan_.column = sides_[1].operand;
    const bool even = find_strides(column, plan_.columns);
    if (takes_packed(column, config_.winograd)) {
      use_packed(column);
    } else if (even && column.stride == 1 && !apart(column, plan_.rows.extent)) {
      column.access = Access::direct;
      column.dtype = op(column.load).dtype;
      plan_.far_columns = is_far(column);
    } else if (even && column.step == 1 && makes_dots()) {
      use_dots();
    } else {
      // Elements so far apart are shuffled out of two vectors; those farther apart would be gathered.
      constexpr int64_t shuffled = 2;
      // Packing does not pay for a single row; a plain reduction reads each element once.
      if (plan_.rows.extent == 1) return false;
      column.access = Access::block;
      plan_.packs_far = shared_ == 0 && even && is_far(column);
      column.transposed = even ? column.step == 1 : moves_along_depth(column, plan_.columns, shuffled);
      column.dtype = plan_.accumulator;
    }
    return true;
  }

  /// Whether both sides are contiguous along a depth that is long enough to amortise the final sum over
  /// lanes, and the rows are too few to amortise transposing the columns.
  bool makes_dots() const {
    constexpr int64_t least_vectors = 4, repays = 32;
    const auto& row = plan_.row;
    const bool along =
        row.access == Access::block ? row.depth_inside : row.access != Access::window && row.step == 1;
    // Few columns of a long depth leave workers idle; other plans divide the depth.
    constexpr int64_t least_tasks = 8, long_sums = 1 << 18;
    const int64_t panels = plan_.batch.extent * ceil_div(plan_.columns.extent, plan_.lanes);
    const bool busy = panels >= least_tasks || panels * plan_.lanes * plan_.depth.extent < long_sums;
    return shared_ == 0 && config_.rows == 0 && along && busy && plan_.rows.extent < repays &&
           plan_.depth.extent >= least_vectors * plan_.lanes;
  }

  void use_dots() {
    auto& column = plan_.column;
    column.access = Access::direct;
    column.dtype = op(column.load).dtype;
    constexpr int64_t most_rows = 4, most_dots = 8;
    const int64_t rows = plan_.rows.extent, lanes = plan_.lanes;
    plan_.block_rows = static_cast<int>(ceil_div(rows, ceil_div(rows, most_rows)));
    plan_.block_vectors = 1;
    // Half of the registers hold sums.
    const int64_t sums = target_.vector_registers / 2;
    plan_.dots = static_cast<int>(std::bit_floor(
        static_cast<uint64_t>(std::clamp<int64_t>(sums / plan_.block_rows, 1, std::min(most_dots, lanes)))));
    // Prefetch columns that are read once from memory: a few lines ahead for one row, about a page for
    // several.
    constexpr int64_t bytes_ahead = 1024, bytes_ahead_of_several = 4096;
    const int64_t bytes = bits_of(column.dtype) / 8;
    if (plan_.depth.extent * plan_.columns.extent * bytes > target_.l2_bytes / 2)
      plan_.ahead = (plan_.block_rows > 1 ? bytes_ahead_of_several : bytes_ahead) / bytes;
    // One multiply-add with its load per vector, and the final sum over lanes.
    const auto products = static_cast<double>(plan_.batch.extent * rows * plan_.columns.extent);
    plan_.cycles = products * (static_cast<double>(ceil_div(plan_.depth.extent, lanes)) + 8.0);
  }

  /// Whether AMX registers can compute it: bf16 rows along the depth, or windows whose channels fill
  /// whole registers of the depth, and bf16 columns packed for AMX.
  bool uses_amx() const {
    constexpr int64_t least_rows = 8;  // fewer rows are bound by memory anyway
    constexpr int64_t least_places = 4;
    if (!target_.amx || plan_.winograd || config_.rows != 0 || plan_.accumulator != f32 ||
        plan_.column.access != Access::packed || plan_.column.dtype != bf16 ||
        plan_.rows.extent < least_rows || plan_.depth.extent == 0)
      return false;
    if (!plan_.window) {
      const auto& row = plan_.row;
      const bool along =
          row.access == Access::direct ? row.step == 1 : row.access == Access::block && row.depth_inside;
      return along && row.load != none && op(row.load).dtype == bf16 && plan_.depth.extent % amx_depth == 0;
    }
    const auto& window = *plan_.window;
    return window.region && !window.planar && !plan_.channelwise && window.places >= least_places &&
           window.load != none && window.statement.ops[window.load].dtype == bf16 &&
           window.channels % amx_depth == 0;
  }

  const Target& target_;
  loop::Kernel& kernel_;
  index::Pool& pool_;
  bool assume_packed_;
  const GemmConfig config_;
  bool windows_ = true;        ///< rows may be windows
  std::ptrdiff_t shared_ = 0;  ///< loops shared with other statements; 0: the kernel is this contraction
  GemmPlan plan_;
  Side sides_[2];  // rows, columns
  std::vector<loop::Var> batch_, depth_;
};

}  // namespace

std::optional<GemmPlan> plan_gemm(const Target& target, loop::Kernel& kernel, bool assume_packed,
                                  const GemmConfig& config) {
  return Planner(target, kernel, assume_packed, config).plan();
}

std::optional<GemmPlan> plan_gemm_inside(const Target& target, loop::Kernel& kernel, size_t statement,
                                         const GemmConfig& config) {
  return Planner(target, kernel, false, config).plan_inside(statement);
}

std::optional<GemmPlan> plan_gemm_for_gpu(const Target& target, loop::Kernel& kernel, bool assume_packed) {
  return Planner(target, kernel, assume_packed, {}).plan_of_grid();
}

}  // namespace ferrite::emitter
