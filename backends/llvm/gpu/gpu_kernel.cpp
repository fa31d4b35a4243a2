// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Emits a GPU kernel. emit_gpu_kernel() tries the templates in order: attention, GEMM, reductions of rows
// (as in a softmax or a norm) and of columns, transposition, scan. Any other kernel runs as plain loops:
// points of the shared loops become threads if each has little work; otherwise they become blocks, whose
// threads divide the work.
#include "ferrite/emitter/gpu_kernel.h"

#include <llvm/IR/DerivedTypes.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <utility>

#include "backends/llvm/gpu/attention/gpu_attention.h"
#include "backends/llvm/gpu/attention/gpu_tiled_products.h"
#include "backends/llvm/gpu/gemm/gpu_gemm.h"
#include "backends/llvm/gpu/nest/block_reduction.h"
#include "backends/llvm/gpu/nest/block_scan.h"
#include "backends/llvm/gpu/nest/column_reduction.h"
#include "backends/llvm/gpu/nest/row_reduction.h"
#include "backends/llvm/gpu/nest/thread_block.h"
#include "backends/llvm/gpu/nest/transpose_blocks.h"
#include "backends/llvm/ir/reduction_state.h"
#include "backends/llvm/nest/nest_emitter.h"
#include "backends/llvm/nest/nest_plan.h"
#include "ferrite/analysis/stores_apart.hpp"
#include "ferrite/emitter/body_emitter.h"
#include "ferrite/emitter/kernel_emitter.h"
#include "ferrite/error.hpp"
#include "ferrite/gpu_runtime/device_code.h"
#include "ferrite/loop_check.hpp"

namespace ferrite::emitter {

namespace {

using loop::VarKind;

/// Up to this many elements, one thread processes a point alone even if reads are not coalesced.
constexpr int64_t few_elements = 32;
/// With at least this many threads, one thread per point is efficient even if each has much work.
constexpr int64_t many_threads = 4096;
constexpr int64_t most_reads_at_once = 8;  // loads in flight per thread of a reduction
constexpr size_t short_body = 64;          // operations of a body that may be unrolled for each of them
constexpr int64_t most_registers = 8;      // elements of a thread's local buffer
constexpr int64_t least_filled = 8;        // at most one in so many vectors of the blocks may be missing

int64_t product(std::span<const loop::Var> vars) {
  int64_t count = 1;
  for (const auto& var : vars) count *= var.extent;
  return count;
}

/// The mapping of a kernel to the grid.
struct LaunchGeometry {
  bool by_points = true;  ///< each thread has a point of the shared loops, else each block has one
  int64_t points = 1;     ///< number of points of the shared loops
  unsigned threads = 1;
};

/// Whether neighbours along `var` are adjacent in the buffer that dominates the statement's reads.
bool walks_side_by_side(loop::Kernel& kernel, const loop::Statement& statement, const loop::Var& var) {
  const loop::BodyOp* most = nullptr;
  for (const auto& op : statement.ops)
    if (op.code == FE_OP_LOAD &&
        (!most || kernel.buffers[op.buffer].bytes() > kernel.buffers[most->buffer].bytes()))
      most = &op;
  if (!most) return true;
  const auto step = kernel.pool.coefficient(
      element_address(kernel.pool, kernel.buffers[most->buffer], most->index), var.symbol);
  return step && std::abs(*step) <= 1;
}

/// Whether points that may store to one element must run in order, because no atomic operation covers the
/// store.
bool needs_order(const GpuMachine& machine, const loop::Kernel& kernel) {
  const auto& statement = kernel.statements[0];
  return statement.kind == FE_STATEMENT_SCATTER && !stores_at_once(machine, kernel, statement);
}

/// Points that differ in a variable on which the stored element depends never conflict. Makes such variables
/// the shared ones; a thread iterates over the others in order.
void order_scatter(loop::Kernel& kernel) {
  auto& statement = kernel.statements[0];
  std::vector<loop::Var> apart, others;
  for (size_t k = 0; k < statement.parallel_count(); ++k)
    (loop::stores_apart(kernel.pool, statement, k) ? apart : others).push_back(statement.vars[k]);
  kernel.shared = static_cast<uint32_t>(apart.size());
  std::ranges::copy(others, std::ranges::copy(apart, statement.vars.begin()).out);
}

/// A block scan, if rows are long and there are too few of them for one thread each with coalesced reads.
std::optional<BlockScanPlan> scan_of(const Target& target, loop::Kernel& kernel) {
  auto plan = plan_block_scan(target, kernel);
  if (!plan || plan->extent <= few_elements) return std::nullopt;
  const auto& statement = kernel.statements[0];
  const size_t parallel = statement.parallel_count();
  if (plan->points >= many_threads && walks_side_by_side(kernel, statement, statement.vars[parallel - 1]))
    return std::nullopt;
  return plan;
}

LaunchGeometry launch_geometry_of(const GpuMachine& machine, loop::Kernel& kernel) {
  LaunchGeometry geometry;
  const bool ordered = needs_order(machine, kernel);
  if (ordered) order_scatter(kernel);
  const auto& first = kernel.statements[0].vars;
  geometry.points = product(std::span(first).first(kernel.shared));
  int64_t most = 1;
  bool alone = true;
  for (const auto& statement : kernel.statements) {
    const int64_t rest = std::max<int64_t>(1, product(std::span(statement.vars).subspan(kernel.shared)));
    most = std::max(most, rest);
    if (rest > few_elements)
      alone = alone && kernel.shared > 0 && geometry.points >= many_threads &&
              walks_side_by_side(kernel, statement, statement.vars[kernel.shared - 1]);
    // A carried value belongs to a single thread.
    if (statement.has(VarKind::serial)) alone = alone && kernel.statements.size() == 1;
  }
  const bool serial = kernel.statements.size() == 1 && kernel.statements[0].has(VarKind::serial);
  for (const auto& buffer : kernel.buffers)
    if (buffer.kind == FE_BUFFER_LOCAL && buffer.extent() > most_registers) alone = false;
  geometry.by_points = alone || serial || ordered;
  const auto wanted = geometry.by_points ? geometry.points : (most + 3) / 4;
  geometry.threads = static_cast<unsigned>(std::clamp<int64_t>(
      static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(1, wanted)))), machine.warp,
      machine.threads));
  return geometry;
}

class GpuKernelEmitter {
 public:
  GpuKernelEmitter(KernelContext& context, const LaunchGeometry& geometry)
      : context_(context),
        block_(context),
        geometry_(geometry),
        thread_(block_.thread()),
        reduction_(context, block_, geometry.threads) {
    for (size_t b = 0; b < context.kernel.buffers.size(); ++b) {
      const auto& buffer = context.kernel.buffers[b];
      if (buffer.kind != FE_BUFFER_LOCAL) continue;
      auto* type = context.storage_type(buffer.dtype);
      const auto extent = std::max<int64_t>(1, buffer.extent());
      context.move_base(static_cast<loop::BufferId>(b),
                        geometry.by_points
                            ? context.slot(llvm::ArrayType::get(type, static_cast<uint64_t>(extent)), "local")
                            : block_.shared(type, extent));
    }
  }

  int64_t emit() {
    auto& builder = context_.builder;
    const auto& kernel = context_.kernel;
    if (geometry_.points == 0) return 0;
    if (!geometry_.by_points) {
      const auto values = context_.coordinates(shared_vars(kernel.statements[0]), block_.number());
      for (const auto& statement : kernel.statements) {
        by_block(statement, values);
        block_.barrier();
      }
      return geometry_.points;
    }
    if (kernel.statements.size() == 1)
      if (const auto plan = vectors_of(kernel.statements[0]))
        return plan->rounds > 1 ? by_rounds(*plan) : by_vectors(plan->statement);
    auto* flat =
        builder.CreateNSWAdd(builder.CreateNSWMul(block_.number(), context_.i64(geometry_.threads)), thread_);
    context_.when(builder.CreateICmpSLT(flat, context_.i64(geometry_.points)), "point", [&] {
      const auto values = context_.coordinates(shared_vars(kernel.statements[0]), flat);
      for (const auto& statement : kernel.statements) {
        const auto plan = plan_of(statement, kernel.shared);
        StatementEmitter(context_, plan, false).emit(point_at(statement, values), 0, {});
      }
    });
    return (geometry_.points + geometry_.threads - 1) / geometry_.threads;
  }

  ThreadBlock& block() { return block_; }

 private:
  std::span<const loop::Var> shared_vars(const loop::Statement& statement) const {
    return std::span(statement.vars).first(context_.kernel.shared);
  }
  Point point_at(const loop::Statement& statement, const std::vector<llvm::Value*>& values) const {
    Point point;
    for (size_t k = 0; k < values.size(); ++k) point.set(statement.vars[k].symbol, values[k]);
    return point;
  }
  /// Steps of a reduction whose loads are issued together. Stores between the loads would keep them in order.
  int64_t reads_at_once(const loop::Statement& statement) const {
    auto& pool = context_.kernel.pool;
    const auto element = element_part(pool, statement);
    const bool writes = std::ranges::any_of(statement.stores, [&](const loop::Store& store) {
      return stores_elements(pool, statement, store, element);
    });
    return writes || statement.ops.size() > short_body ? 1 : most_reads_at_once;
  }
  /// Plans scalar loops for all variables after the first `fixed`.
  StatementPlan plan_of(const loop::Statement& statement, size_t fixed) const {
    StatementPlan plan;
    plan.statement = statement;
    plan.fixed = fixed;
    for (size_t k = 0; k < statement.vars.size(); ++k) {
      if (k >= fixed && statement.vars[k].kind == VarKind::parallel) plan.outer.push_back(k);
      if (statement.vars[k].kind == VarKind::reduction) plan.reductions.push_back(k);
    }
    if (!plan.reductions.empty()) plan.steps_at_once = reads_at_once(statement);
    return plan;
  }

  /// A map whose neighbours along one loop are adjacent in memory. A thread has `rounds` vectors, whose loads
  /// are in flight together.
  struct VectorPlan {
    StatementPlan statement;
    int64_t rounds = 1;
  };

  /// The plan of such a map: vectors as wide as a thread's access or, where accesses do not start at such
  /// vectors, several narrow ones. Returns nullopt where single points are as fast.
  std::optional<VectorPlan> vectors_of(const loop::Statement& statement) const {
    if (statement.kind != FE_STATEMENT_MAP || statement.has(VarKind::serial) || !statement.reductions.empty())
      return std::nullopt;
    VectorPlan result{plan_statement(context_.target, context_.kernel, statement, 0)};
    auto& plan = result.statement;
    if (!plan.vector_is_parallel() || plan.inside) return std::nullopt;
    const auto& var = plan.statement.vars[*plan.vector];
    const auto widest = plan.lanes;
    while (plan.lanes > 1 && var.extent % plan.lanes != 0 &&
           !begin_at_vectors(plan.statement, var.symbol, plan.lanes))
      plan.lanes /= 2;
    if (plan.lanes < widest) {
      result.rounds = std::max<int64_t>(1, most_reads_at_once / plan.lanes);
      while (result.rounds > 1 && !fills(result)) result.rounds /= 2;
    }
    if (plan.lanes == 1 && result.rounds == 1) return std::nullopt;
    return result;
  }
  /// Vectors of a block that works through a part of a row.
  int64_t vectors_of_block(const VectorPlan& plan) const { return plan.rounds * geometry_.threads; }
  /// Whether nearly all vectors of the blocks exist, and the body is short enough to be unrolled.
  bool fills(const VectorPlan& plan) const {
    const auto& statement = plan.statement;
    const int64_t vectors = vectors_in_row(statement), block = vectors_of_block(plan);
    const int64_t missing = (block - vectors % block) % block;
    return missing * least_filled <= vectors && plan.rounds <= map_rounds(statement.statement);
  }
  static int64_t vectors_in_row(const StatementPlan& plan) {
    return (plan.statement.vars[*plan.vector].extent + plan.lanes - 1) / plan.lanes;
  }
  /// Whether each access is either constant along the variable or starts at multiples of the lanes. Padded
  /// rows may have a remainder.
  bool begin_at_vectors(const loop::Statement& statement, index::Symbol along, unsigned lanes) const {
    auto& kernel = context_.kernel;
    const auto begins = [&](loop::BufferId buffer, const std::vector<index::Expr>& index) {
      if (kernel.buffers[buffer].packing) return false;
      const auto address = element_address(kernel.pool, kernel.buffers[buffer], index);
      return !kernel.pool.depends_on(address, along) || begins_at_vectors(kernel.pool, address, along, lanes);
    };
    return std::ranges::all_of(statement.ops,
                               [&](const loop::BodyOp& op) {
                                 return op.code != FE_OP_INDIRECT &&
                                        (op.code != FE_OP_LOAD || begins(op.buffer, op.index));
                               }) &&
           std::ranges::all_of(statement.stores,
                               [&](const loop::Store& store) { return begins(store.buffer, store.index); });
  }
  int64_t by_vectors(const StatementPlan& plan) {
    auto& builder = context_.builder;
    std::vector<loop::Var> vars;
    for (const size_t k : plan.outer) vars.push_back(plan.statement.vars[k]);
    vars.push_back(plan.statement.vars[*plan.vector]);
    const int64_t extent = vars.back().extent;
    vars.back().extent = (extent + plan.lanes - 1) / plan.lanes;
    const int64_t count = product(vars);
    auto* flat =
        builder.CreateNSWAdd(builder.CreateNSWMul(block_.number(), context_.i64(geometry_.threads)), thread_);
    context_.when(builder.CreateICmpSLT(flat, context_.i64(count)), "vector", [&] {
      auto values = context_.coordinates(vars, flat);
      values.back() = builder.CreateNSWMul(values.back(), context_.i64(plan.lanes));
      Point point;
      for (size_t k = 0; k < vars.size(); ++k) point.set(vars[k].symbol, values[k]);
      point.vector = vars.back().symbol;
      point.lanes = plan.lanes;
      point.aligned = true;
      auto* left = builder.CreateNSWSub(context_.i64(extent), values.back());
      BodyEmitter body(context_, plan.statement);
      block_.vector(left, extent, plan.lanes, plan.lanes, [&](llvm::Value* mask) {
        point.mask = mask;
        body.start(point);
        body.store(body.finish_stores());
      });
    });
    return (count + geometry_.threads - 1) / geometry_.threads;
  }

  /// Does a map at the points `at(0)`, `at(1)`, ..., which differ in the variables `along`: all loads come
  /// before the first store, which would keep them in order.
  void map_together(const loop::Statement& statement, std::span<const index::Symbol> along, int64_t count,
                    const std::function<Point(int64_t)>& at) {
    std::vector<BodyEmitter> bodies;
    bodies.reserve(static_cast<size_t>(count));
    for (int64_t k = 0; k < count; ++k) {
      if (k == 0)
        bodies.emplace_back(context_, statement).start(at(k));
      else
        bodies.emplace_back(bodies.front()).move(at(k), along);
      auto& body = bodies.back();
      for (const size_t number : body.finish_stores()) body.stored(statement.stores[number].value);
    }
    for (auto& body : bodies) body.store(body.finish_stores());
  }

  /// Each block has a part of a row: consecutive threads have consecutive vectors, round by round.
  int64_t by_rounds(const VectorPlan& given) {
    auto& builder = context_.builder;
    const auto& plan = given.statement;
    std::vector<loop::Var> vars;
    for (const size_t k : plan.outer) vars.push_back(plan.statement.vars[k]);
    vars.push_back(plan.statement.vars[*plan.vector]);
    const int64_t extent = vars.back().extent, vectors = vectors_in_row(plan),
                  block = vectors_of_block(given);
    vars.back().extent = (vectors + block - 1) / block;
    const auto values = context_.coordinates(vars, block_.number());
    auto* first = builder.CreateNSWMul(values.back(), context_.i64(block));
    const auto at = [&](int64_t round) {
      auto* vector =
          builder.CreateNSWAdd(builder.CreateNSWAdd(first, context_.i64(round * geometry_.threads)), thread_);
      Point point;
      for (size_t k = 0; k + 1 < vars.size(); ++k) point.set(vars[k].symbol, values[k]);
      point.set(vars.back().symbol, builder.CreateNSWMul(vector, context_.i64(plan.lanes)));
      point.vector = vars.back().symbol;
      point.lanes = plan.lanes;
      point.aligned = true;
      return point;
    };
    const auto all = [&] { map_together(plan.statement, {&vars.back().symbol, 1}, given.rounds, at); };
    const auto some = [&] {
      for (int64_t round = 0; round < given.rounds; ++round) {
        auto point = at(round);
        auto* left = builder.CreateNSWSub(context_.i64(extent), point.at(point.vector));
        block_.vector(left, extent, plan.lanes, block * plan.lanes, [&](llvm::Value* mask) {
          point.mask = mask;
          BodyEmitter body(context_, plan.statement);
          body.start(point);
          body.store(body.finish_stores());
        });
      }
    };
    const int64_t blocks = product(vars);
    if (extent % (block * plan.lanes) == 0) {
      all();
      return blocks;
    }
    auto* is_whole = builder.CreateICmpSLE(builder.CreateNSWAdd(first, context_.i64(block)),
                                           context_.i64(extent / plan.lanes));
    context_.when(is_whole, "whole", all);
    context_.when(builder.CreateNot(is_whole), "part", some);
    return blocks;
  }

  /// Calls `body(k)` for each k < count, distributed over the threads.
  void divide(int64_t count, const llvm::Twine& name, const std::function<void(llvm::Value*)>& body) {
    block_.divide(count, geometry_.threads, name, body);
  }

  /// Elements of a thread whose loads are issued together.
  static int64_t map_rounds(const loop::Statement& statement) {
    const auto fits =
        static_cast<int64_t>(short_body * most_reads_at_once / std::max<size_t>(1, statement.ops.size()));
    return std::clamp<int64_t>(static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(fits))), 1,
                               most_reads_at_once);
  }

  /// Divides `count` elements over the threads: `work(first, n)` does those at first, first + threads, ..., n
  /// of them, `rounds` where as many exist.
  void in_rounds(int64_t count, int64_t rounds, const std::function<void(llvm::Value*, int64_t)>& work) {
    auto& builder = context_.builder;
    const int64_t round = geometry_.threads;
    const int64_t together = rounds == 1 ? 0 : count / (round * rounds) * (round * rounds);
    if (together > 0)
      context_.loop(thread_, context_.i64(together), round * rounds, "rounds",
                    [&](llvm::Value* flat) { work(flat, rounds); });
    context_.loop(builder.CreateNSWAdd(thread_, context_.i64(together)), context_.i64(count), round,
                  "elements", [&](llvm::Value* flat) { work(flat, 1); });
  }

  // One thread per point if there are enough points or few elements to reduce; else all threads reduce each
  // point.
  void by_block(const loop::Statement& statement, const std::vector<llvm::Value*>& values) {
    const auto point = point_at(statement, values);
    const size_t shared = context_.kernel.shared, parallel = statement.parallel_count();
    const auto rest = std::span(statement.vars).subspan(shared, parallel - shared);
    const int64_t points = product(rest), elements = statement.points(VarKind::reduction);
    const auto set_rest = [&](Point at, llvm::Value* flat) {
      const auto coordinates = context_.coordinates(rest, flat);
      for (size_t k = 0; k < rest.size(); ++k) at.set(rest[k].symbol, coordinates[k]);
      return at;
    };
    std::vector<index::Symbol> along;
    for (const auto& var : rest) along.push_back(var.symbol);
    if (statement.kind == FE_STATEMENT_MAP && !statement.has(VarKind::serial) && elements == 1)
      return in_rounds(points, map_rounds(statement), [&](llvm::Value* first, int64_t count) {
        map_together(statement, along, count, [&](int64_t k) {
          return set_rest(point, context_.builder.CreateNSWAdd(first, context_.i64(k * geometry_.threads)));
        });
      });
    if (statement.has(VarKind::serial) || statement.reductions.empty() || points * 4 > geometry_.threads ||
        elements <= few_elements) {
      const auto plan = plan_of(statement, parallel);
      StatementEmitter emitter(context_, plan, false);
      return divide(points, "points", [&](llvm::Value* k) { emitter.emit(set_rest(point, k), 0, {}); });
    }
    context_.loop(context_.i64(0), context_.i64(points), 1, "rows",
                  [&](llvm::Value* k) { reduce_together(statement, set_rest(point, k)); });
  }

  /// Reduces one point with all threads of the block.
  void reduce_together(const loop::Statement& statement, const Point& point) {
    auto& builder = context_.builder;
    BodyEmitter body(context_, statement);
    std::vector<ReductionState> states;
    for (size_t k = 0; k < statement.reductions.size(); ++k) {
      states.emplace_back(context_, body, statement, k, 1);
      states.back().reset();
    }
    const auto vars = std::span(statement.vars).subspan(statement.parallel_count());
    const auto take = [&](llvm::Value* flat) {
      auto at = point;
      const auto coordinates = context_.coordinates(vars, flat);
      for (size_t k = 0; k < vars.size(); ++k) at.set(vars[k].symbol, coordinates[k]);
      body.start(at);
      for (auto& state : states) state.take(nullptr);
      body.store(body.element_stores());
    };
    in_rounds(product(vars), reads_at_once(statement), [&](llvm::Value* flat, int64_t count) {
      for (int64_t k = 0; k < count; ++k)
        take(builder.CreateNSWAdd(flat, context_.i64(k * geometry_.threads)));
    });
    std::vector<llvm::Value*> results;
    for (auto& state : states) results.push_back(state.result(reduction_.combine(state, state.values())));
    body.start(point);
    for (size_t k = 0; k < results.size(); ++k) body.bind_reduced(k, results[k]);
    context_.when(builder.CreateICmpEQ(thread_, context_.i64(0)), "first",
                  [&] { body.store(body.finish_stores()); });
  }

  KernelContext& context_;
  ThreadBlock block_;
  const LaunchGeometry geometry_;
  llvm::Value* thread_;
  BlockReduction reduction_;
};

}  // namespace

std::string gpu_unsupported_reason(const Target& target, const loop::Kernel& kernel) {
  for (const auto& statement : kernel.statements)
    if (kernel.statements.size() > 1 && statement.kind == FE_STATEMENT_SCATTER)
      return "a scatter beside other statements";
  if (std::ranges::any_of(kernel.buffers,
                          [](const loop::Buffer& buffer) { return buffer.packing.has_value(); })) {
    auto planned = kernel;
    return plan_gpu_gemm(target, planned, 0) ? "" : "a packed operand outside a contraction";
  }
  return unsupported_reason(target, kernel);
}

std::vector<GpuOption> gpu_options(const Target& target, const loop::Kernel& kernel) {
  if (kernel.statements[0].kind != FE_STATEMENT_CONTRACT) return {};
  auto planned = kernel;
  if (const auto attention = plan_gpu_attention(target, planned))
    return {{0, "", gpu_attention_seconds(target, *attention), {}}};
  if (const auto tiled = plan_gpu_tiled_products(target, planned))
    return {{0, "", gpu_tiled_products_seconds(target, *tiled), {}}};
  return gpu_gemm_options(target, kernel);
}

GpuEmitResult emit_gpu_kernel(llvm::LLVMContext& llvm_context, const Target& target, loop::Kernel kernel,
                              std::string_view entry, uint64_t option) {
  if (auto reason = gpu_unsupported_reason(target, kernel); !reason.empty()) decline(reason);
  GpuEmitResult result;
  result.module = std::make_unique<llvm::Module>(llvm::StringRef(entry.data(), entry.size()), llvm_context);
  llvm::Triple triple(target.triple);
  result.module->setDataLayout(triple.computeDataLayout());
  result.module->setTargetTriple(triple);
  std::optional<GpuGemmPlan> gemm;
  const auto attention = plan_gpu_attention(target, kernel);
  const auto tiled = attention ? std::nullopt : plan_gpu_tiled_products(target, kernel);
  const bool products = attention || tiled;
  if (!products && kernel.statements[0].kind == FE_STATEMENT_CONTRACT)
    gemm = plan_gpu_gemm(target, kernel, option);
  // Contractions without a plan are emitted as sums of products.
  for (auto& statement : kernel.statements)
    if (!products && !gemm && statement.kind == FE_STATEMENT_CONTRACT) {
      statement.contract_a = statement.contract_b = loop::none;
      statement.contract_kind = FE_CONTRACT_GENERIC;
      statement.kind = loop::derived_kind(kernel.pool, statement);
    }
  // Try the templates in this order; launch_geometry_of() handles the remaining kernels.
  const auto rows = products || gemm ? std::nullopt : plan_row_reduction(target, kernel);
  const auto columns = products || gemm || rows ? std::nullopt : plan_column_reduction(target, kernel);
  const auto transposition =
      products || gemm || rows || columns ? std::nullopt : plan_transpose_blocks(kernel);
  const auto scan =
      products || gemm || rows || columns || transposition ? std::nullopt : scan_of(target, kernel);
  const auto geometry = products || gemm || rows || columns || transposition || scan
                            ? LaunchGeometry()
                            : launch_geometry_of(*target.grid, kernel);
  KernelContext context(*result.module, target, kernel, entry);
  const auto finish = [&](ThreadBlock& block, int64_t blocks, unsigned threads) {
    context.builder.CreateRetVoid();
    result.blocks = blocks;
    result.threads = threads;
    result.shared_bytes = block.shared_bytes();
    result.dynamic_bytes = block.finish_shared();
  };
  if (attention) {
    ThreadBlock block(context);
    emit_gpu_attention(context, block, *attention);
    finish(block, attention->blocks(), attention->threads(*target.grid));
  } else if (tiled) {
    ThreadBlock block(context);
    emit_gpu_tiled_products(context, block, *tiled);
    finish(block, tiled->blocks(), tiled->threads(*target.grid));
  } else if (gemm) {
    ThreadBlock block(context);
    emit_gpu_gemm(context, block, *gemm);
    finish(block, gemm->blocks(), gemm->threads);
  } else if (rows) {
    ThreadBlock block(context);
    emit_row_reduction(context, block, *rows);
    finish(block, rows->points, rows->threads);
  } else if (columns) {
    ThreadBlock block(context);
    emit_column_reduction(context, block, *columns);
    finish(block, columns->blocks, columns->threads());
  } else if (transposition) {
    ThreadBlock block(context);
    emit_transpose_blocks(context, block, *transposition);
    finish(block, transposition->blocks, transpose_block_threads);
  } else if (scan) {
    ThreadBlock block(context);
    emit_block_scan(context, block, *scan);
    finish(block, scan->points, scan->threads);
  } else {
    GpuKernelEmitter emitter(context, geometry);
    const int64_t blocks = emitter.emit();
    finish(emitter.block(), blocks, geometry.threads);
  }
  if (result.shared_bytes > target.grid->shared_bytes)
    decline("a block would need " + std::to_string(result.shared_bytes) + " bytes of shared memory");
  if (result.blocks > std::min(most_blocks, target.grid->most_threads / result.threads))
    decline(std::to_string(result.blocks) + " blocks of " + std::to_string(result.threads) +
            " threads are more than one launch takes");
  return result;
}

}  // namespace ferrite::emitter
