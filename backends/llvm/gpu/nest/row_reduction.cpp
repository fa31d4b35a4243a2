// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "backends/llvm/gpu/nest/row_reduction.h"

#include <llvm/IR/DerivedTypes.h>

#include <algorithm>
#include <bit>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "backends/llvm/gpu/nest/block_reduction.h"
#include "ferrite/emitter/body_emitter.h"

namespace ferrite::emitter {

namespace {

using loop::VarKind;

constexpr int64_t most_chunks = 16;   // unrolled chunks per thread
constexpr int64_t wanted_chunks = 4;  // enough loads in flight to hide the latency
constexpr int64_t most_words = 128;   // 32-bit registers for intermediate values of a thread
// The limit including rows that also exist in memory. With more, the registers suffice for only one large
// block per multiprocessor, in which loading and computing do not overlap. That takes longer than reading
// again (bf16[32768, 50257], maximum and sum of exponentials, on an H200: 1.97 and 1.47 ms).
constexpr int64_t most_words_of_memory = 32;

/// The statement's own loop; null if it has none.
const loop::Var* own_loop(const loop::Kernel& kernel, const loop::Statement& statement) {
  return statement.vars.size() > kernel.shared ? &statement.vars[kernel.shared] : nullptr;
}

class RowsPlanner {
 public:
  RowsPlanner(const GpuMachine& machine, loop::Kernel& kernel)
      : machine_(machine), kernel_(kernel), pool_(kernel.pool) {}

  std::optional<RowReductionPlan> plan() {
    if (kernel_.shared == 0) return std::nullopt;
    for (; statement_ < kernel_.statements.size(); ++statement_)
      if (!take(kernel_.statements[statement_])) return std::nullopt;
    if (plan_.extent == 0) return std::nullopt;
    plan_.lanes = static_cast<unsigned>(bytes_of_access / narrowest_);
    while (plan_.lanes > 1 && plan_.extent % plan_.lanes != 0 && !begin_at_vectors()) plan_.lanes /= 2;
    if (plan_.lanes == 1) return std::nullopt;
    const int64_t chunks = (plan_.extent + plan_.lanes - 1) / plan_.lanes;
    plan_.threads = static_cast<unsigned>(std::clamp<int64_t>(
        static_cast<int64_t>(
            std::bit_ceil(static_cast<uint64_t>((chunks + wanted_chunks - 1) / wanted_chunks))),
        machine_.warp, machine_.row_threads));
    plan_.chunks = (chunks + plan_.threads - 1) / plan_.threads;
    int64_t words = 0;
    for (const auto& [buffer, address] : rows_)
      words += plan_.chunks * plan_.lanes * bits_of(kernel_.buffers[buffer].dtype) / 32;
    if (plan_.chunks > most_chunks || words > most_words) return std::nullopt;
    for (const auto& [row, last, count] : readers_) {
      const int64_t more = plan_.chunks * plan_.lanes * bits_of(kernel_.buffers[row.first].dtype) / 32;
      if (count < 2 || words + more > most_words_of_memory) continue;
      words += more;
      plan_.kept.push_back(row);
    }
    for (const auto& var : std::span(kernel_.statements[0].vars).first(kernel_.shared))
      plan_.points *= var.extent;
    return plan_;
  }

 private:
  bool take(const loop::Statement& statement) {
    if ((statement.kind != FE_STATEMENT_MAP && statement.kind != FE_STATEMENT_REDUCE) ||
        !statement.carries.empty() || statement.has(VarKind::serial) ||
        statement.vars.size() > kernel_.shared + 1)
      return false;
    const auto* own = own_loop(kernel_, statement);
    if (own && plan_.extent != 0 && own->extent != plan_.extent) return false;
    if (own) plan_.extent = own->extent;
    // By operation: whether it differs between elements of the row.
    std::vector<bool> differs(statement.ops.size());
    for (size_t k = 0; k < statement.ops.size(); ++k) {
      const auto& op = statement.ops[k];
      const auto of = [&](loop::OpId id) { return id != loop::none && differs[id]; };
      differs[k] = of(op.a) || of(op.b) || of(op.c) || (own && std::ranges::any_of(op.index, [&](auto expr) {
                                                          return pool_.depends_on(expr, own->symbol);
                                                        }));
      if ((op.code == FE_OP_INDIRECT && differs[k]) || (op.code == FE_OP_LOAD && op.a != loop::none))
        return false;
      if (op.code == FE_OP_LOAD && !access(op.buffer, op.index, own, false)) return false;
    }
    for (const auto& store : statement.stores)
      if (store.mask != loop::none || store.mode != FE_STORE_SET ||
          !access(store.buffer, store.index, own, true))
        return false;
    return true;
  }

  /// Whether rows in memory start at multiples of the lanes, so that vectors are aligned even if the last one
  /// is partial.
  bool begin_at_vectors() const {
    return std::ranges::all_of(starts_,
                               [&](index::Expr start) { return pool_.divisor(start) % plan_.lanes == 0; });
  }

  bool access(loop::BufferId id, const std::vector<index::Expr>& index, const loop::Var* own, bool store) {
    const auto& buffer = kernel_.buffers[id];
    auto address = element_address(pool_, buffer, index);
    const auto step = own ? pool_.coefficient(address, own->symbol) : std::optional<int64_t>(0);
    if (!step || (*step != 0 && *step != 1)) return false;
    if (*step == 1 && buffer.kind != FE_BUFFER_LOCAL)
      narrowest_ = std::min<int64_t>(narrowest_, KernelContext::storage_bytes(buffer.dtype));
    if (*step == 1) {
      const std::pair<index::Symbol, index::Expr> start{own->symbol, pool_.constant(0)};
      address = pool_.substitute(address, {&start, 1});
      if (buffer.kind != FE_BUFFER_LOCAL) starts_.push_back(address);
      if (buffer.kind != FE_BUFFER_LOCAL && !store && !written_.count(id)) note_reader({id, address}, own);
    }
    if (buffer.kind == FE_BUFFER_OUTPUT) {
      const std::pair place{*step, address};
      const auto written = written_.find(id);
      if (store && written != written_.end()) return false;
      // An element may be overwritten if the same thread read it. Otherwise all threads must wait until its
      // readers are done.
      for (const auto& read : read_[id]) {
        if (!store || (*step == 1 && read.place == place)) continue;
        if (read.statement == statement_) return false;
        plan_.waits.insert(statement_);
      }
      if (store) written_.emplace(id, place);
      if (!store && written == written_.end()) read_[id].push_back({place, statement_});
      // A result may be read again only by the thread that computed it; other threads would have to wait for
      // memory.
      if (!store && written != written_.end()) {
        if (written->second != place) return false;
        if (std::ranges::find(plan_.forwarded, id) == plan_.forwarded.end()) plan_.forwarded.push_back(id);
        if (*step == 1) rows_.try_emplace(id, address);
      }
    }
    if (buffer.kind != FE_BUFFER_LOCAL) return true;
    // A local buffer is either a row, whose elements are divided among the threads, or one value, which every
    // thread holds.
    if (*step != 1 && store && own && own->kind == VarKind::parallel) {
      return false;
    }
    auto& known = *step == 1 ? rows_ : values_;
    const auto& other = *step == 1 ? values_ : rows_;
    return !other.count(id) && known.try_emplace(id, address).first->second == address;
  }

  void note_reader(const std::pair<loop::BufferId, index::Expr>& row, const loop::Var* own) {
    auto known = std::ranges::find(readers_, row, &Readers::row);
    if (known == readers_.end()) known = readers_.insert(known, {row, nullptr, 0});
    if (known->last == own) return;
    known->last = own;
    ++known->count;
  }

  const GpuMachine& machine_;
  loop::Kernel& kernel_;
  index::Pool& pool_;
  RowReductionPlan plan_;
  int64_t narrowest_ = 8;
  std::map<loop::BufferId, index::Expr> rows_, values_;
  /// A read of a result: step and start of the row, and the statement.
  struct Read {
    std::pair<int64_t, index::Expr> place;
    size_t statement;
  };
  std::map<loop::BufferId, std::vector<Read>> read_;
  size_t statement_ = 0;  ///< the current statement
  std::map<loop::BufferId, std::pair<int64_t, index::Expr>> written_;
  std::vector<index::Expr> starts_;  ///< start addresses of rows in memory
  /// Readers of a row in memory: buffer and start of the row, the last loop that reads it, and the number of
  /// such loops.
  struct Readers {
    std::pair<loop::BufferId, index::Expr> row;
    const loop::Var* last;
    size_t count;
  };
  std::vector<Readers> readers_;
};

class RowsEmitter {
 public:
  RowsEmitter(KernelContext& context, ThreadBlock& block, const RowReductionPlan& plan)
      : context_(context),
        builder_(context.builder),
        block_(block),
        plan_(plan),
        reduction_(context, block, plan.threads) {}

  void emit() {
    const auto& kernel = context_.kernel;
    const auto shared = std::span(kernel.statements[0].vars).first(kernel.shared);
    coordinates_ = context_.coordinates(shared, block_.number());
    for (size_t k = 0; k < kernel.statements.size(); ++k) {
      if (plan_.waits.count(k)) block_.barrier();
      emit(kernel.statements[k]);
    }
  }

 private:
  void emit(const loop::Statement& statement) {
    BodyEmitter body(context_, statement);
    Point point;
    for (size_t k = 0; k < coordinates_.size(); ++k) point.set(statement.vars[k].symbol, coordinates_[k]);
    const auto* own = own_loop(context_.kernel, statement);
    std::vector<ReductionState> states;
    for (size_t k = 0; k < statement.reductions.size(); ++k) {
      states.emplace_back(context_, body, statement, k, plan_.lanes);
      states.back().reset();
    }
    const bool reduces = !own || own->kind == VarKind::reduction;
    for (int64_t chunk = 0; own && chunk < plan_.chunks; ++chunk) {
      auto* number = builder_.CreateNSWAdd(block_.thread(), context_.i64(chunk * plan_.threads));
      auto* first = builder_.CreateNSWMul(number, context_.i64(plan_.lanes));
      const auto work = [&] {
        auto at = point;
        at.set(own->symbol, first);
        at.vector = own->symbol;
        at.lanes = plan_.lanes;
        at.aligned = true;
        if (chunk + 1 == plan_.chunks && plan_.extent % plan_.lanes != 0)
          at.mask = context_.lane_mask(builder_.CreateNSWSub(context_.i64(plan_.extent), first), plan_.lanes);
        start(body, statement, at, chunk);
        for (auto& state : states) state.take(at.mask);
        store(body, statement, reduces ? body.element_stores() : body.finish_stores(), chunk, false);
      };
      if (plan_.even() || chunk + 1 < plan_.chunks)
        work();
      else
        context_.when(builder_.CreateICmpSLT(first, context_.i64(plan_.extent)), "chunk", work);
    }
    if (!reduces) return;
    std::vector<llvm::Value*> results;
    for (auto& state : states)
      results.push_back(state.result(reduction_.combine(state, state.across(state.values()))));
    start(body, statement, point, 0);
    for (size_t k = 0; k < results.size(); ++k) body.bind_reduced(k, results[k]);
    store(body, statement, body.finish_stores(), 0, true);
  }

  bool is_local(loop::BufferId buffer) const {
    return context_.kernel.buffers[buffer].kind == FE_BUFFER_LOCAL;
  }

  bool moves_along(index::Expr address, const Point& point) const {
    return point.vector != Point::no_symbol && context_.kernel.pool.depends_on(address, point.vector);
  }

  bool is_kept(loop::BufferId buffer) const {
    return is_local(buffer) || std::ranges::find(plan_.forwarded, buffer) != plan_.forwarded.end();
  }

  /// Starts the point and binds the loads whose values the thread keeps.
  void start(BodyEmitter& body, const loop::Statement& statement, const Point& point, int64_t chunk) {
    body.start(point);
    for (loop::OpId id = 0; id < statement.ops.size(); ++id) {
      const auto& op = statement.ops[id];
      if (op.code != FE_OP_LOAD) continue;
      auto slot = kept_.find({op.buffer, chunk});
      // A value of the whole row is kept once, in chunk 0.
      if (slot == kept_.end() && !moves_along(body.load_address(id), point))
        slot = kept_.find({op.buffer, 0});
      if (slot != kept_.end())
        body.bind_stored(id, builder_.CreateLoad(slot->second->getAllocatedType(), slot->second));
      else if (!is_local(op.buffer) && moves_along(body.load_address(id), point))
        keep_row(body, op, id, chunk);
    }
  }

  /// The first of several statements that read a row in memory keeps its elements for the others.
  void keep_row(BodyEmitter& body, const loop::BodyOp& op, loop::OpId id, int64_t chunk) {
    const std::pair<index::Symbol, index::Expr> start{body.point().vector, context_.kernel.pool.constant(0)};
    const std::pair row{op.buffer, context_.kernel.pool.substitute(body.load_address(id), {&start, 1})};
    const auto number = std::ranges::find(plan_.kept, row) - plan_.kept.begin();
    if (number == std::ssize(plan_.kept)) return;
    auto& slot = rows_[{number, chunk}];
    if (slot) return body.bind_stored(id, builder_.CreateLoad(slot->getAllocatedType(), slot));
    auto* value = body.stored_lanes_of(id);
    slot = context_.slot(value->getType(), "row");
    builder_.CreateStore(value, slot);
    body.bind_stored(id, value);
  }

  /// `once`: the value belongs to the whole row, so a single thread writes it to memory.
  void store(BodyEmitter& body, const loop::Statement& statement, const std::vector<size_t>& numbers,
             int64_t chunk, bool once) {
    std::vector<size_t> to_memory;
    for (const size_t number : numbers) {
      const auto& given = statement.stores[number];
      if (!is_local(given.buffer)) to_memory.push_back(number);
      if (!is_kept(given.buffer)) continue;
      auto* value = body.stored_lanes_of(given.value);
      auto& slot = kept_[{given.buffer, chunk}];
      if (!slot) slot = context_.slot(value->getType(), "kept");
      builder_.CreateStore(value, slot);
    }
    if (to_memory.empty()) return;
    if (once)
      context_.when(builder_.CreateICmpEQ(block_.thread(), context_.i64(0)), "first",
                    [&] { body.store(to_memory); });
    else
      body.store(to_memory);
  }

  KernelContext& context_;
  llvm::IRBuilder<>& builder_;
  ThreadBlock& block_;
  const RowReductionPlan& plan_;
  BlockReduction reduction_;
  std::vector<llvm::Value*> coordinates_;
  std::map<std::pair<loop::BufferId, int64_t>, llvm::AllocaInst*> kept_;  // by buffer and chunk
  std::map<std::pair<ptrdiff_t, int64_t>, llvm::AllocaInst*> rows_;  // by number in plan_.kept, and by chunk
};

}  // namespace

std::optional<RowReductionPlan> plan_row_reduction(const Target& target, loop::Kernel& kernel) {
  return RowsPlanner(*target.grid, kernel).plan();
}

void emit_row_reduction(KernelContext& context, ThreadBlock& block, const RowReductionPlan& plan) {
  RowsEmitter(context, block, plan).emit();
}

}  // namespace ferrite::emitter
