// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The form of operands in shared memory, and the choice of a block's tile by a cost model of multiplying,
// loading and waiting.
#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "backends/llvm/analysis/statement_values.h"
#include "backends/llvm/gemm/tile_sizes.h"
#include "backends/llvm/gpu/gemm/gpu_gemm.h"
#include "backends/llvm/gpu/gemm/shared_tile_loader.h"
#include "backends/llvm/gpu/gemm/tile_accumulator.h"
#include "ferrite/emitter/body_emitter.h"

namespace ferrite::emitter {

namespace {

using loop::none;

/// The value before casts to wider floats. For an 8-bit float it is the cast's result, since matrix
/// instructions multiply 16-bit floats.
loop::OpId before_widening(const loop::Statement& statement, loop::OpId value) {
  for (;;) {
    const auto& op = statement.ops[value];
    if (!op.is_prim() || op.prim() != Prim::cast_ || !is_float(op.dtype)) return value;
    const auto from = statement.ops[op.a].dtype;
    if (!is_float(from) || bits_of(op.dtype) <= bits_of(from) || bits_of(from) < 16) return value;
    value = op.a;
  }
}

/// The stride of the value's largest buffer along the axis' last variable; nullopt if it is not constant.
std::optional<int64_t> step_along(loop::Kernel& kernel, const GemmPlan& plan, loop::OpId value,
                                  const Axis& axis) {
  const auto& statement = plan.statement;
  const std::array roots{value};
  const auto needed = needed_operations(statement, kernel.pool, roots);
  const loop::BodyOp* largest = nullptr;
  for (size_t k = 0; k < statement.ops.size(); ++k) {
    const auto& op = statement.ops[k];
    if (needed[k] && op.code == FE_OP_LOAD &&
        (!largest || kernel.buffers[op.buffer].elements() > kernel.buffers[largest->buffer].elements()))
      largest = &op;
  }
  if (!largest || axis.vars.empty()) return std::nullopt;
  return kernel.pool.coefficient(largest->index[0], axis.vars.back().symbol);
}

/// Whether all loads of the value can be vectors of `lanes` elements along the flat coordinate.
bool is_even(loop::Kernel& kernel, const loop::Statement& statement, loop::OpId value, index::Symbol along) {
  auto& pool = kernel.pool;
  const std::array roots{value};
  const auto needed = needed_operations(statement, pool, roots);
  for (size_t k = 0; k < statement.ops.size(); ++k) {
    const auto& op = statement.ops[k];
    if (!needed[k] || op.index.empty()) continue;
    if (op.code != FE_OP_LOAD || op.a != none) return false;
    for (auto expr : op.index) {
      const auto step = pool.coefficient(expr, along);
      if (!step || (*step != 0 && *step != 1)) return false;
    }
  }
  return true;
}

/// Whether, wherever `along` is a multiple of `lanes`, the value consists of that many adjacent and aligned
/// elements of memory, or of zeros only.
bool is_copy(loop::Kernel& kernel, const loop::Statement& statement, loop::OpId value, index::Symbol along,
             int64_t lanes) {
  auto& pool = kernel.pool;
  const auto& load = statement.ops[value];
  if (load.code != FE_OP_LOAD || load.index.size() != 1) return false;
  const auto& buffer = kernel.buffers[load.buffer];
  if (buffer.kind == FE_BUFFER_LOCAL || lanes * bits_of(load.dtype) / 8 > buffer.alignment) return false;
  const auto lanes_at = [&](index::Expr expr, int64_t step) {
    const auto offsets = lane_offsets(pool, expr, along, static_cast<unsigned>(lanes));
    for (size_t k = 0; k < offsets.size(); ++k)
      if (offsets[k] != step * static_cast<int64_t>(k)) return false;
    return !offsets.empty();
  };
  const std::array roots{value};
  const auto needed = needed_operations(statement, pool, roots);
  for (size_t k = 0; k < statement.ops.size(); ++k) {
    const auto& op = statement.ops[k];
    if (needed[k] && op.code == FE_OP_INDIRECT) return false;
    if (!needed[k] || k == value || op.index.empty()) continue;
    if (op.code != FE_OP_INDEX || !lanes_at(op.index[0], 0)) return false;
  }
  if (load.a != none && load.b != none &&
      (statement.ops[load.b].code != FE_OP_CONSTANT || statement.ops[load.b].bits != 0))
    return false;
  const auto address = element_address(pool, buffer, load.index);
  if (!lanes_at(address, 1)) return false;
  if (lanes == 1) return true;
  const auto range = pool.symbol_range(along);
  const index::Term term[] = {{pool.symbol(pool.new_symbol({0, range.hi / lanes})), lanes}};
  const std::pair<index::Symbol, index::Expr> replacement[] = {{along, pool.linear(0, term)}};
  const auto affine = pool.affine(pool.substitute(address, replacement));
  const auto whole = [&](const auto& part) { return part.second % lanes == 0; };
  return affine.constant % lanes == 0 && std::ranges::all_of(affine.terms, whole) &&
         std::ranges::all_of(affine.rest, whole);
}

/// Whether result rows, and rows that the epilogue reads, start at multiples of the lanes, so that the last
/// vector may be partial.
bool finishes_vectors(loop::Kernel& kernel, const GemmPlan& contract, unsigned lanes) {
  auto& pool = kernel.pool;
  const auto& statement = contract.statement;
  if (contract.columns.vars.size() != 1) return false;
  const auto begins = [&](loop::BufferId buffer, const std::vector<index::Expr>& index) {
    const auto address = element_address(pool, kernel.buffers[buffer], index);
    return !pool.depends_on(address, contract.columns.symbol) ||
           begins_at_vectors(pool, address, contract.columns.symbol, lanes);
  };
  for (const auto& store : statement.stores)
    if (store.mask != none || !begins(store.buffer, store.index)) return false;
  const auto needed = stored_operations(statement, pool, contract.forwards);
  for (size_t k = 0; k < statement.ops.size(); ++k)
    if (const auto& op = statement.ops[k];
        needed[k] && op.code == FE_OP_LOAD && (op.a != none || !begins(op.buffer, op.index)))
      return false;
  return true;
}

/// The number of operations per element, apart from its address.
int64_t operations_of(const loop::Statement& statement, index::Pool& pool, loop::OpId value) {
  const std::array roots{value};
  const auto needed = needed_operations(statement, pool, roots);
  int64_t count = 0;
  for (size_t k = 0; k < statement.ops.size(); ++k) count += needed[k] && statement.ops[k].is_prim();
  return count;
}

/// The properties of an operand that do not depend on the tile.
GpuGemmPlan::Side side_of(loop::Kernel& kernel, const GpuGemmPlan& plan, const Operand& operand,
                          const Axis& across) {
  const auto& contract = plan.contract;
  GpuGemmPlan::Side side;
  side.value = before_widening(contract.statement, operand.value);
  side.dtype = contract.statement.ops[side.value].dtype;
  side.depth_inside = step_along(kernel, contract, side.value, contract.depth) == 1 ||
                      step_along(kernel, contract, side.value, across) != 1;
  side.operations = operations_of(contract.statement, kernel.pool, side.value);
  const auto& inner = side.depth_inside ? contract.depth : across;
  const int64_t lanes = bytes_of_access * 8 / bits_of(side.dtype);
  const auto statement = value_statement(contract, kernel.pool, side.value);
  if (inner.extent % lanes == 0 && is_even(kernel, statement, side.value, inner.symbol)) side.lanes = lanes;
  return side;
}

/// Sets the form in shared memory: unchanged elements if the machine has asynchronous copies for them.
void copy_side(const GpuMachine& machine, loop::Kernel& kernel, const GpuGemmPlan& plan, const Axis& across,
               GpuGemmPlan::Side& side) {
  side.bytes = bits_of(plan.matrix ? side.dtype : plan.contract.accumulator) / 8;
  side.lines_along_depth = plan.matrix && (side.depth_inside || plan.matrix->load_transposed.empty());
  if (side.bytes * 8 != bits_of(side.dtype) || (plan.matrix && side.lines_along_depth != side.depth_inside))
    return;
  // Without a matrix instruction, threads read adjacent rows or columns across the depth; a copy cannot
  // transpose.
  if (!plan.matrix && side.depth_inside) return;
  const auto& inner = side.depth_inside ? plan.contract.depth : across;
  const auto statement = value_statement(plan.contract, kernel.pool, side.value);
  for (const auto& [bytes, name] : machine.copies.widths) {
    const int64_t lanes = bytes / side.bytes;
    // A partial vector consists of whole elements and must not need a mask.
    if (lanes < 1 || (inner.extent % lanes != 0 && statement.ops[side.value].a != none) ||
        !is_copy(kernel, statement, side.value, inner.symbol, lanes))
      continue;
    side.copied = true;
    side.lanes = lanes;
    side.lines_along_depth = side.depth_inside;
    return;
  }
}

/// Whether the value's loads are unmasked, and evenly spaced along the depth and across it.
bool is_evenly_spaced(loop::Kernel& kernel, const GpuGemmPlan& plan, const Axis& across,
                      const GpuGemmPlan::Side& side) {
  auto& pool = kernel.pool;
  const auto statement = value_statement(plan.contract, pool, side.value);
  const std::array roots{side.value};
  const auto needed = needed_operations(statement, pool, roots);
  for (size_t k = 0; k < statement.ops.size(); ++k) {
    const auto& op = statement.ops[k];
    if (!needed[k] || op.index.empty()) continue;
    if (op.code != FE_OP_LOAD || op.a != none) return false;
    for (auto expr : op.index)
      for (const auto symbol : {across.symbol, plan.contract.depth.symbol})
        if (!pool.coefficient(expr, symbol)) return false;
  }
  return true;
}

struct Shape {
  int64_t rows, columns, thread_rows, thread_columns;
};
constexpr std::array matrix_shapes = {
    Shape{128, 256, 2, 4}, Shape{256, 128, 4, 2}, Shape{128, 128, 2, 2}, Shape{128, 128, 2, 4},
    Shape{64, 256, 1, 4},  Shape{256, 64, 4, 1},  Shape{128, 64, 2, 2},  Shape{64, 128, 2, 2},
    Shape{64, 64, 2, 2},   Shape{64, 64, 2, 4},   Shape{32, 128, 1, 4},  Shape{128, 32, 4, 1},
    Shape{32, 64, 2, 2},   Shape{64, 32, 2, 2},   Shape{32, 32, 2, 2},
};
constexpr std::array scalar_shapes = {Shape{128, 128, 16, 16}, Shape{128, 64, 16, 16}, Shape{64, 128, 16, 16},
                                      Shape{64, 64, 16, 16},   Shape{32, 64, 16, 16},  Shape{64, 32, 16, 16},
                                      Shape{32, 32, 16, 16}};

/// Estimated registers per thread: sums, operands of the products in flight, and elements loaded through
/// registers.
int64_t registers_of(const GpuMachine& machine, const GpuGemmPlan& plan) {
  // Registers for addresses and loop counters, as the code generator uses them.
  const int64_t addresses = plan.matrix ? 44 : 32;
  const auto& tile = plan.tile;
  const int64_t rows = tile.rows / tile.thread_rows, columns = tile.columns / tile.thread_columns;
  const int64_t words = bits_of(plan.contract.accumulator) / 32;
  int64_t on_their_way = 0;
  for (const auto& [side, across] : {std::pair(&plan.row, tile.rows), std::pair(&plan.column, tile.columns)})
    if (!side->copied) {
      constexpr int64_t of_place = 2;  // terms of the address that are the same at each step
      const int64_t each = ceil_div(side->lanes * side->bytes, 4) + (side->even ? 0 : of_place);
      on_their_way += across * tile.depth / side->lanes / plan.threads * each;
    }
  if (!plan.matrix) return addresses + (rows * columns + 2 * (rows + columns)) * words + on_their_way;
  const int64_t sums = rows * columns / machine.warp * words;
  const int64_t operands = (rows + columns) * plan.matrix->depth * plan.row.bytes / 4 / machine.warp;
  return addresses + sums + 2 * operands + on_their_way;
}

/// Fills in the values that follow from the plan's tile; returns false if the machine cannot run it.
bool fit(const GpuMachine& machine, GpuGemmPlan& plan) {
  constexpr int64_t most_registers = 255;
  const auto& tile = plan.tile;
  const int64_t rows = tile.rows / tile.thread_rows, columns = tile.columns / tile.thread_columns;
  if (plan.matrix && (rows % plan.matrix->rows != 0 || columns % plan.matrix->columns != 0 ||
                      tile.depth % plan.matrix->depth != 0))
    return false;
  plan.threads =
      static_cast<unsigned>(tile.thread_rows * tile.thread_columns * (plan.matrix ? machine.warp : 1));
  if (plan.threads > machine.threads) return false;
  // Each thread must load a part of each operand tile.
  for (auto [side, across] : {std::pair(&plan.row, tile.rows), std::pair(&plan.column, tile.columns)}) {
    side->lanes = std::min(side->lanes, across * tile.depth / plan.threads);
    const auto has_width = [&](const GpuMachine::Copy& copy) {
      return copy.bytes == side->lanes * side->bytes;
    };
    if (side->lanes == 0 || (side->copied && std::ranges::none_of(machine.copies.widths, has_width)))
      return false;
  }
  if (tile.columns % plan.contract.lanes != 0) return false;
  if (tile.splits > machine.cluster.most || plan.steps() % tile.splits != 0) return false;
  plan.row_tiles = ceil_div(plan.contract.rows.extent, tile.rows);
  plan.column_tiles = ceil_div(plan.contract.columns.extent, tile.columns);
  // Split-K is for otherwise idle multiprocessors; if clusters run one after the other they cost more than
  // they save.
  if (tile.splits > 1 && plan.blocks() > machine.multiprocessors) return false;
  const int64_t registers = registers_of(machine, plan);
  if (plan.shared_bytes() > machine.shared_bytes || registers > most_registers) return false;
  // Shared memory that each block reserves, and threads of a multiprocessor.
  constexpr int64_t reserved = 1 << 10, most_threads = 2048;
  const int64_t in_memory =
      machine.shared_bytes / std::min(machine.shared_bytes, plan.shared_bytes() + reserved);
  plan.resident = std::max<int64_t>(1, std::min({in_memory, machine.registers / (registers * plan.threads),
                                                 most_threads / int64_t{plan.threads}}));
  return true;
}

/// Estimated seconds of the kernel. It counts the waves of concurrent blocks on a multiprocessor. The time of
/// a step is the longest of multiplying, reading shared memory, loading tiles, issuing the loads, and waiting
/// for them.
double seconds_of(const Target& target, const GpuGemmPlan& plan) {
  constexpr double l2_bytes = 40, shared_bytes = 128;  // bytes of a multiprocessor per cycle
  // Cycles: to the first byte, to start a block, to write a sum.
  constexpr double latency = 800, start = 1500, write = 1.0 / 8;
  constexpr double meeting = 3000;  // cycles: synchronisation of a cluster
  const auto& machine = *target.grid;
  const auto& tile = plan.tile;
  const auto bytes = static_cast<double>(plan.row.bytes), depth = static_cast<double>(tile.depth);
  const auto area = static_cast<double>(tile.rows * tile.columns);
  const double words = static_cast<double>(bits_of(plan.contract.accumulator)) / 32;
  const double products = plan.matrix ? plan.matrix->products : machine.products / words;
  const double loading = static_cast<double>(tile.rows + tile.columns) * depth * bytes / l2_bytes;
  // Cycles of shared memory to serve each warp's rows and columns. Without matrix instructions, the threads
  // of a warp share what they read, but each read of up to four elements takes at least two cycles, and reads
  // occupy issue slots of multiplications.
  const int64_t rows = tile.rows / tile.thread_rows, columns = tile.columns / tile.thread_columns;
  const int64_t lines = tile.rows * tile.thread_columns + tile.columns * tile.thread_rows;
  const int64_t reads = 2 * (ceil_div(rows, 4) + ceil_div(columns, 4));
  // Approximate instructions of a thread per access. If the access is not evenly spaced or is masked, its
  // address is computed each time.
  constexpr int64_t of_copy = 4, of_read = 6, of_place_to_copy = 6, of_places_to_read = 40, of_operation = 2;
  const auto instructions = [&](const GpuGemmPlan::Side& side, int64_t across) {
    const int64_t of_place = side.copied ? of_place_to_copy : of_places_to_read;
    const int64_t each = (side.copied ? of_copy : of_read) + (side.even ? 0 : of_place) +
                         side.operations * side.lanes * of_operation;
    const int64_t accesses = across * tile.depth / side.lanes;
    return static_cast<double>(accesses * each);
  };
  const double issuing =
      (instructions(plan.row, tile.rows) + instructions(plan.column, tile.columns)) / machine.products;
  double multiplying = area * depth / products;
  double reading = static_cast<double>(lines) * depth * bytes / shared_bytes;
  if (!plan.matrix) {
    // Fraction of cycles that issue a multiplication (measured: f32, 4,096 x 4,096 x 4,096 on an H200, 3.43
    // to 3.86 ms).
    constexpr double issued = 0.78;
    multiplying *= (1 + static_cast<double>(reads) / static_cast<double>(rows * columns)) / issued;
    const int64_t reads_of_warps = reads * plan.threads / machine.warp;
    reading = static_cast<double>(reads_of_warps) * depth * words;
  }

  const int64_t blocks = ceil_div(plan.blocks(), machine.multiprocessors);
  const int64_t resident = plan.resident;
  const auto round = [&](int64_t count) {
    const auto at_once = static_cast<double>(count);
    const double warps = at_once * plan.threads / machine.warp;
    const double busy = warps / (warps + 1);
    const double step = std::max({at_once * multiplying / busy, at_once * loading, at_once * reading,
                                  at_once * issuing, latency / static_cast<double>(tile.stages - 1)});
    const double together = tile.splits > 1 ? meeting : 0;
    return start + latency + together + static_cast<double>(plan.steps_of_block()) * step +
           at_once * area * write;
  };
  const int64_t whole_rounds = blocks / resident;
  double cycles = static_cast<double>(whole_rounds) * round(resident);
  if (blocks % resident != 0) cycles += round(blocks % resident);
  return cycles / target.cycles_per_second;
}

/// The part of the plan that does not depend on the tile.
std::optional<GpuGemmPlan> plan_without_tile(const Target& target, loop::Kernel& kernel, bool assume_packed) {
  constexpr int64_t least = 8;  // rows, columns and depth; smaller products are emitted as plain reductions
  auto planned = kernel;        // a kernel that gets no tiles must stay unchanged
  auto contract = plan_gemm_for_gpu(target, planned, assume_packed);
  if (!contract || contract->rows.extent < least || contract->columns.extent < least ||
      contract->depth.extent < least || contract->batch.extent == 0)
    return std::nullopt;
  kernel = std::move(planned);
  GpuGemmPlan plan;
  plan.contract = std::move(*contract);
  auto& made = plan.contract;
  // The epilogue writes one full access per thread, in elements of the narrowest result.
  int64_t narrowest = bytes_of_access;
  for (const auto& store : made.statement.stores)
    narrowest =
        std::min<int64_t>(narrowest, std::max<int64_t>(2, bits_of(kernel.buffers[store.buffer].dtype) / 8));
  made.lanes = static_cast<int>(bytes_of_access / narrowest);
  while (made.columns.extent % made.lanes != 0 &&
         !finishes_vectors(kernel, made, static_cast<unsigned>(made.lanes)))
    made.lanes /= 2;
  const auto& machine = *target.grid;
  plan.row = side_of(kernel, plan, made.row, made.rows);
  plan.column = side_of(kernel, plan, made.column, made.columns);
  if (plan.row.dtype == plan.column.dtype) plan.matrix = machine.matrix_of(plan.row.dtype, made.accumulator);
  copy_side(machine, kernel, plan, made.rows, plan.row);
  copy_side(machine, kernel, plan, made.columns, plan.column);
  plan.row.even = is_evenly_spaced(kernel, plan, made.rows, plan.row);
  plan.column.even = is_evenly_spaced(kernel, plan, made.columns, plan.column);
  return plan;
}

struct Choice {
  GpuGemmTile tile;
  double seconds;
};

/// All tiles that the machine can run, fastest first.
std::vector<Choice> choices_of(const Target& target, GpuGemmPlan& plan) {
  const auto& machine = *target.grid;
  const bool copies = plan.row.copied || plan.column.copied;
  const auto row = plan.row, column = plan.column;
  std::vector<Choice> choices;
  const auto add = [&](const Shape& shape, int64_t depth) {
    for (int64_t splits = 1; splits <= machine.cluster.most; splits *= 2)
      // With copies, more stages hide more latency; without, tiles pass through registers and two stages
      // suffice.
      for (int64_t stages = copies ? 4 : 2; stages >= (copies ? 3 : 2); --stages) {
        plan.row = row;
        plan.column = column;
        plan.tile = {shape.rows,           shape.columns, depth, shape.thread_rows,
                     shape.thread_columns, stages,        splits};
        if (fit(machine, plan)) choices.push_back({plan.tile, seconds_of(target, plan)});
      }
  };
  const int64_t bits = bits_of(plan.contract.accumulator);
  if (plan.matrix) {
    // Lines of 64 or 128 bytes.
    for (const auto& shape : matrix_shapes)
      for (int64_t bytes = 64; bytes <= (copies ? 128 : 64); bytes *= 2) add(shape, bytes / plan.row.bytes);
  } else {
    for (const auto& shape : scalar_shapes)
      if (shape.rows * shape.columns * bits <= 128 * 128 * 32) add(shape, 16 * 32 / bits);
  }
  std::ranges::stable_sort(choices, {}, &Choice::seconds);
  plan.row = row;
  plan.column = column;
  return choices;
}

}  // namespace

uint64_t GpuGemmTile::id() const {
  const auto byte = [](int64_t value, unsigned at) { return static_cast<uint64_t>(value) << at; };
  return byte(rows / 8, 0) | byte(columns / 8, 8) | byte(depth, 16) | byte(thread_rows, 24) |
         byte(thread_columns, 32) | byte(stages, 40) | byte(splits, 48);
}
GpuGemmTile GpuGemmTile::of(uint64_t id) {
  const auto byte = [&](unsigned at) { return static_cast<int64_t>(id >> at & 0xff); };
  return {byte(0) * 8, byte(8) * 8, byte(16), byte(24), byte(32), byte(40), byte(48)};
}
std::string GpuGemmTile::name() const {
  const auto text = [](int64_t number) { return std::to_string(number); };
  return text(rows) + "x" + text(columns) + "x" + text(depth) + "." + text(thread_rows) + "x" +
         text(thread_columns) + ".s" + text(stages) + (splits > 1 ? ".k" + text(splits) : "");
}

int64_t GpuGemmPlan::steps() const { return ceil_div(contract.depth.extent, tile.depth); }
int64_t GpuGemmPlan::steps_of_block() const { return steps() / tile.splits; }
int64_t GpuGemmPlan::line(const Side& side) const {
  const int64_t across = &side == &row ? tile.rows : tile.columns;
  return (side.lines_along_depth ? tile.depth : across) + bytes_of_access / side.bytes;
}
int64_t GpuGemmPlan::tile_bytes(const Side& side) const {
  const int64_t across = &side == &row ? tile.rows : tile.columns;
  return line(side) * (side.lines_along_depth ? across : tile.depth) * side.bytes;
}
int64_t GpuGemmPlan::sums_line() const {
  return tile.columns + 2 * bytes_of_access * 8 / bits_of(contract.accumulator);
}
int64_t GpuGemmPlan::shared_bytes() const {
  const int64_t sums = rows_of_round(*this) * sums_line() * bits_of(contract.accumulator) / 8;
  return std::max(tile.stages * stage_bytes(), sums);
}

std::optional<GpuGemmPlan> plan_gpu_gemm(const Target& target, loop::Kernel& kernel, uint64_t tile) {
  auto plan = plan_without_tile(target, kernel, false);
  if (!plan) return std::nullopt;
  if (tile != 0) {
    plan->tile = GpuGemmTile::of(tile);
  } else {
    const auto choices = choices_of(target, *plan);
    if (choices.empty()) return std::nullopt;
    plan->tile = choices[0].tile;
  }
  if (!fit(*target.grid, *plan)) return std::nullopt;
  return plan;
}

std::vector<GpuOption> gpu_gemm_options(const Target& target, const loop::Kernel& kernel) {
  constexpr size_t most = 12;
  constexpr double hopeless = 2;  // times the least
  std::vector<GpuOption> options;
  auto planned = kernel;
  auto plan = plan_without_tile(target, planned, true);
  if (!plan) return options;
  const auto layouts = layouts_of(plan->contract, kernel.statements[0], planned.pool);
  std::vector<GpuGemmTile> taken;
  for (const auto& [tile, seconds] : choices_of(target, *plan)) {
    if (options.size() == most || (!options.empty() && seconds > hopeless * options[0].seconds)) break;
    // At most two of those that differ only in depth and stages.
    const auto alike = std::ranges::count_if(taken, [&](const GpuGemmTile& other) {
      return other.rows == tile.rows && other.columns == tile.columns &&
             other.thread_rows == tile.thread_rows && other.thread_columns == tile.thread_columns &&
             other.splits == tile.splits;
    });
    if (alike == 2) continue;
    taken.push_back(tile);
    options.push_back({tile.id(), tile.name(), seconds, layouts});
  }
  return options;
}

}  // namespace ferrite::emitter
