// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "backends/llvm/gpu/nest/column_reduction.h"

#include <llvm/IR/DerivedTypes.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <map>

#include "backends/llvm/ir/reduction_state.h"
#include "ferrite/emitter/body_emitter.h"
#include "ferrite/loop_check.hpp"

namespace ferrite::emitter {

namespace {

using loop::VarKind;

constexpr int64_t line_bytes = 128;  // bytes of each row that a block reads
constexpr int64_t threads_of_block = 256;
constexpr int64_t threads_of_multiprocessor = 2048;  // enough to hide the latency of memory
constexpr int64_t rows_at_once = 4;                  // rows per thread whose loads are in flight together

class ColumnsPlanner {
 public:
  ColumnsPlanner(const GpuMachine& machine, loop::Kernel& kernel)
      : machine_(machine), kernel_(kernel), statement_(kernel.statements[0]), pool_(kernel.pool) {}

  std::optional<ColumnReductionPlan> plan() {
    if (kernel_.statements.size() != 1 || statement_.kind != FE_STATEMENT_REDUCE ||
        statement_.reductions.empty() || !statement_.carries.empty() || statement_.has(VarKind::serial))
      return std::nullopt;
    for (const auto& reduction : statement_.reductions)
      if (bits_of(statement_.ops[reduction.element].dtype) < 8 || reduction.kind == FE_REDUCE_ANY ||
          reduction.kind == FE_REDUCE_ALL)
        return std::nullopt;
    const auto count = statement_.parallel_count();
    for (size_t k = count; k-- > 0;)
      if (auto plan = plan_of(k)) return plan;
    return std::nullopt;
  }

 private:
  std::optional<ColumnReductionPlan> plan_of(size_t column) {
    const auto& var = statement_.vars[column];
    int64_t narrowest = bytes_of_access;
    bool walks = false;
    std::vector<index::Expr> addresses;                        // addresses that move along the columns
    std::map<loop::BufferId, std::vector<index::Expr>> reads;  // loads of outputs
    const auto access = [&](loop::BufferId id, const std::vector<index::Expr>& index, bool store) {
      const auto& buffer = kernel_.buffers[id];
      if (buffer.packing || buffer.kind == FE_BUFFER_LOCAL) return false;
      const auto address = element_address(pool_, buffer, index);
      const auto step = pool_.coefficient(address, var.symbol);
      if (!step || (*step != 0 && *step != 1)) return false;
      // An in-place store is safe if the same thread reads the element before it stores it.
      if (buffer.kind == FE_BUFFER_OUTPUT) {
        if (!store) reads[id].push_back(address);
        if (store && std::ranges::any_of(reads[id], [&](auto read) { return read != address; })) return false;
      }
      if (*step == 0) return !store;
      walks = walks || (!store && varies_over_rows(address));
      narrowest = std::min<int64_t>(narrowest, KernelContext::storage_bytes(buffer.dtype));
      addresses.push_back(address);
      return true;
    };
    std::vector<bool> differs(statement_.ops.size());  // by operation: whether it differs between columns
    for (size_t k = 0; k < statement_.ops.size(); ++k) {
      const auto& op = statement_.ops[k];
      const auto of = [&](loop::OpId id) { return id != loop::none && differs[id]; };
      differs[k] = of(op.a) || of(op.b) || of(op.c) || std::ranges::any_of(op.index, [&](auto expr) {
                     return pool_.depends_on(expr, var.symbol);
                   });
      // After the reductions, an index computed from their results selects a different element per column;
      // only uniform ones work here.
      if (op.code == FE_OP_INDIRECT && differs[k]) return std::nullopt;
      if (op.code == FE_OP_LOAD && (op.a != loop::none || !access(op.buffer, op.index, false)))
        return std::nullopt;
    }
    for (const auto& store : statement_.stores)
      if (store.mask != loop::none || store.mode != FE_STORE_SET || !access(store.buffer, store.index, true))
        return std::nullopt;
    if (!walks) return std::nullopt;
    ColumnReductionPlan plan;
    plan.column = column;
    plan.lanes = bytes_of_access / narrowest;
    const auto begin_at_vectors = [&] {
      return std::ranges::all_of(addresses, [&](index::Expr address) {
        return begins_at_vectors(pool_, address, var.symbol, static_cast<unsigned>(plan.lanes));
      });
    };
    while (plan.lanes > 1 && !begin_at_vectors()) plan.lanes /= 2;
    plan.across = line_bytes / (plan.lanes * narrowest);
    const int64_t rows = statement_.points(VarKind::reduction);
    plan.down = static_cast<int64_t>(std::bit_floor(
        static_cast<uint64_t>(std::clamp<int64_t>(rows / rows_at_once, 1, threads_of_block / plan.across))));
    int64_t results = 1;
    for (size_t k = 0; k < statement_.parallel_count(); ++k) {
      results *= statement_.vars[k].extent;
      if (k != column) plan.outer.push_back(k);
    }
    if (results == 0) return std::nullopt;
    const int64_t columns = plan.across * plan.lanes;
    plan.blocks = results / var.extent * ((var.extent + columns - 1) / columns);
    // One thread per narrow column would read less than a cache line together with its neighbours.
    constexpr int64_t narrow = 4;
    const bool busy = results >= threads_of_multiprocessor * machine_.multiprocessors;
    // A block has enough loads in flight for the bandwidth of its multiprocessor. Where most of these have no
    // block, a block for each result uses more of them, though it reads a part of each cache line.
    constexpr int64_t most_idle = 4;
    if (plan.down == 1 || (busy && narrowest >= narrow) || plan.blocks * most_idle < machine_.multiprocessors)
      return std::nullopt;
    return plan;
  }

  bool varies_over_rows(index::Expr address) const {
    return std::ranges::any_of(statement_.vars, [&](const loop::Var& var) {
      return var.kind == VarKind::reduction && pool_.depends_on(address, var.symbol);
    });
  }

  const GpuMachine& machine_;
  loop::Kernel& kernel_;
  const loop::Statement& statement_;
  index::Pool& pool_;
};

class ColumnsEmitter {
 public:
  ColumnsEmitter(KernelContext& context, ThreadBlock& block, const ColumnReductionPlan& plan)
      : context_(context),
        builder_(context.builder),
        block_(block),
        plan_(plan),
        statement_(context.kernel.statements[0]),
        placement_(loop::place(context.kernel.pool, statement_)),
        body_(context, statement_),
        lanes_(static_cast<unsigned>(plan.lanes)) {}

  void emit() {
    const auto& var = statement_.vars[plan_.column];
    const int64_t columns = plan_.across * plan_.lanes;
    std::vector<loop::Var> vars;
    for (const size_t k : plan_.outer) vars.push_back(statement_.vars[k]);
    vars.push_back({var.symbol, (var.extent + columns - 1) / columns, VarKind::parallel});
    const auto values = context_.coordinates(vars, block_.number());
    for (size_t k = 0; k < plan_.outer.size(); ++k) point_.set(vars[k].symbol, values[k]);
    across_ = context_.divide(block_.thread(), plan_.across, true, true);
    down_ = context_.divide(block_.thread(), plan_.across, true, false);
    column_ = builder_.CreateNSWAdd(builder_.CreateNSWMul(values.back(), context_.i64(columns)),
                                    builder_.CreateNSWMul(across_, context_.i64(plan_.lanes)));
    point_.set(var.symbol, column_);
    point_.vector = var.symbol;
    point_.lanes = lanes_;
    point_.aligned = true;

    for (size_t k = 0; k < statement_.reductions.size(); ++k) {
      states_.emplace_back(context_, body_, statement_, k, lanes_);
      states_.back().reset();
    }
    where_columns_are([&](llvm::Value* mask) { take_rows(mask); });
    std::vector<Exchange> combined;
    for (auto& state : states_) combined.push_back(combine(state));
    context_.when(builder_.CreateICmpEQ(down_, context_.i64(0)), "first", [&] {
      where_columns_are([&](llvm::Value* mask) {
        auto point = point_;
        point.mask = mask;
        body_.start(point);
        for (size_t k = 0; k < states_.size(); ++k)
          body_.bind_reduced(k, states_[k].result(read(combined[k], across_)));
        body_.store(body_.finish_stores());
      });
    });
  }

 private:
  /// Calls `work(mask)` if the thread has columns; the mask is null if all of them exist.
  void where_columns_are(const std::function<void(llvm::Value*)>& work) {
    const int64_t extent = statement_.vars[plan_.column].extent;
    block_.vector(builder_.CreateNSWSub(context_.i64(extent), column_), extent, plan_.lanes,
                  plan_.across * plan_.lanes, work);
  }

  Point row(llvm::Value* flat, llvm::Value* mask) {
    auto point = point_;
    point.mask = mask;
    const auto vars = std::span(statement_.vars).subspan(statement_.parallel_count());
    const auto coordinates = context_.coordinates(vars, flat);
    for (size_t k = 0; k < vars.size(); ++k) point.set(vars[k].symbol, coordinates[k]);
    return point;
  }

  void take_rows(llvm::Value* mask) {
    const int64_t rows = statement_.points(VarKind::reduction), round = plan_.down * rows_at_once;
    const int64_t together = mask ? 0 : rows / round * round;
    if (together > 0)
      context_.loop(down_, context_.i64(together), round, "rows",
                    [&](llvm::Value* first) { take(first, rows_at_once, nullptr); });
    if (together < rows)
      context_.loop(builder_.CreateNSWAdd(down_, context_.i64(together)), context_.i64(rows), plan_.down,
                    "row", [&](llvm::Value* at) { take(at, 1, mask); });
  }

  /// Accumulates rows that are `down` apart. All are loaded before any is stored, since stores may be
  /// in-place.
  void take(llvm::Value* first, int64_t count, llvm::Value* mask) {
    std::vector<Point> points;
    std::vector<std::vector<llvm::Value*>> read(static_cast<size_t>(count));
    for (int64_t k = 0; k < count; ++k) {
      points.push_back(row(builder_.CreateNSWAdd(first, context_.i64(k * plan_.down)), mask));
      body_.start(points.back());
      for (loop::OpId id = 0; id < statement_.ops.size(); ++id)
        read[static_cast<size_t>(k)].push_back(is_load(id) ? body_.stored(id) : nullptr);
    }
    for (size_t k = 0; k < points.size(); ++k) {
      body_.start(points[k]);
      for (loop::OpId id = 0; id < statement_.ops.size(); ++id)
        if (read[k][id]) body_.bind_stored(id, read[k][id]);
      for (auto& state : states_) state.take(mask);
      body_.store(body_.element_stores());
    }
  }

  /// Whether the load is needed for rows; the finish part loads its own operands.
  bool is_load(loop::OpId id) const {
    return statement_.ops[id].code == FE_OP_LOAD && !placement_.finish[id];
  }
  /// Shared memory for the values of a state, one element per thread.
  struct Exchange {
    llvm::Type *type, *index_type;  ///< the second is null unless the state has an index
    llvm::Value *values, *indices;
  };

  void write(const Exchange& to, const ReductionState::Values& given) {
    const auto put = [&](llvm::Value* memory, llvm::Value* value) {
      auto* type = value->getType();
      builder_.CreateAlignedStore(value, builder_.CreateInBoundsGEP(type, memory, block_.thread()),
                                  alignment(type));
    };
    put(to.values, given.value);
    if (to.indices) put(to.indices, given.index);
  }

  ReductionState::Values read(const Exchange& from, llvm::Value* thread) {
    const auto get = [&](llvm::Value* memory, llvm::Type* type) -> llvm::Value* {
      return builder_.CreateAlignedLoad(type, builder_.CreateInBoundsGEP(type, memory, thread),
                                        alignment(type));
    };
    return {get(from.values, from.type), from.indices ? get(from.indices, from.index_type) : nullptr};
  }

  llvm::Align alignment(llvm::Type* type) const {
    const auto bytes = context_.module.getDataLayout().getTypeAllocSize(type).getFixedValue();
    return llvm::Align(std::bit_floor(std::min<uint64_t>(bytes, bytes_of_access)));
  }

  /// Combines the states of threads with the same columns, halving their number each step; the first thread
  /// gets the result. All threads of the block must call it.
  Exchange combine(ReductionState& state) {
    const auto own = state.values();
    const auto memory = [&](llvm::Type* type) { return block_.shared(type, plan_.threads()); };
    Exchange exchange{own.value->getType(), nullptr, memory(own.value->getType()), nullptr};
    if (own.index) {
      exchange.index_type = own.index->getType();
      exchange.indices = memory(exchange.index_type);
    }
    write(exchange, own);
    for (int64_t half = plan_.down / 2; half > 0; half /= 2) {
      block_.barrier();
      context_.when(builder_.CreateICmpSLT(down_, context_.i64(half)), "combine", [&] {
        auto* other = builder_.CreateNSWAdd(block_.thread(), context_.i64(half * plan_.across));
        write(exchange, state.combine(read(exchange, block_.thread()), read(exchange, other)));
      });
    }
    return exchange;
  }

  KernelContext& context_;
  llvm::IRBuilder<>& builder_;
  ThreadBlock& block_;
  const ColumnReductionPlan& plan_;
  const loop::Statement& statement_;
  const loop::Placement placement_;
  BodyEmitter body_;
  const unsigned lanes_;
  Point point_;  ///< the block's coordinates with the thread's columns
  llvm::Value *across_ = nullptr, *down_ = nullptr, *column_ = nullptr;
  std::vector<ReductionState> states_;
};

}  // namespace

std::optional<ColumnReductionPlan> plan_column_reduction(const Target& target, loop::Kernel& kernel) {
  return ColumnsPlanner(*target.grid, kernel).plan();
}

void emit_column_reduction(KernelContext& context, ThreadBlock& block, const ColumnReductionPlan& plan) {
  ColumnsEmitter(context, block, plan).emit();
}

}  // namespace ferrite::emitter
