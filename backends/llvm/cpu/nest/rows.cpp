// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "backends/llvm/cpu/nest/rows.h"

#include <algorithm>
#include <utility>

#include "backends/llvm/cpu/nest/memory_hints.h"
#include "backends/llvm/nest/nest_emitter.h"

namespace ferrite::emitter {
namespace {

using loop::BufferId;
using loop::VarKind;

// Larger blocks gain little from sharing operands and need more cache.
constexpr int64_t rows_of_block = 4;

/// Whether a statement's work at one row is a single loop over vectors.
bool is_one_loop(const StatementPlan& plan) {
  const auto& statement = plan.statement;
  if (!plan.vector || plan.inside || !plan.transposed.empty() || plan.strip > 0 ||
      statement.has(VarKind::serial) || is_empty(statement))
    return false;
  for (size_t k = plan.fixed; k < statement.vars.size(); ++k)
    if (k != *plan.vector && statement.vars[k].extent != 1) return false;
  return true;
}

bool is_scalar(const loop::Buffer& buffer) { return buffer.kind == FE_BUFFER_LOCAL && buffer.extent() <= 1; }

/// The last statement of the rows, if it can be delayed after the statements of later rows.
class Last {
 public:
  Last(loop::Kernel& kernel, std::span<const StatementPlan> plans)
      : kernel_(kernel), plans_(plans), last_(plans.back().statement) {}

  /// Whether it may run for the previous row at the vectors of the statement before it.
  bool may_be_late() const {
    if (plans_.size() < 2) return false;
    const auto &last = plans_.back(), &lead = plans_[plans_.size() - 2];
    const bool is_map =
        last.vector_is_parallel() && last_.reductions.empty() && !last_.has(VarKind::reduction);
    if (!is_map || !is_one_loop(last) || !is_one_loop(lead) || last.lanes != lead.lanes ||
        last_.vars[*last.vector].extent != lead.statement.vars[*lead.vector].extent)
      return false;
    for (const auto& plan : plans_.first(plans_.size() - 1)) {
      if (is_empty(plan.statement)) return false;
      for (const auto& store : plan.statement.stores)
        if (kernel_.buffers[store.buffer].kind != FE_BUFFER_LOCAL) return false;
    }
    for (const auto& store : last_.stores)
      // Delaying a store is safe only if no earlier statement reads or writes the buffer.
      if (kernel_.buffers[store.buffer].kind == FE_BUFFER_LOCAL || store.mode != FE_STORE_SET ||
          is_touched_before(store.buffer))
        return false;
    return std::ranges::all_of(last_.ops, [&](const loop::BodyOp& op) {
      return op.code != FE_OP_LOAD || !is_stored_before(op.buffer) || is_scalar(kernel_.buffers[op.buffer]) ||
             is_left_by_lead(op);
    });
  }

  /// Whether a delayed statement should rather run for a block of rows after the other statements. Operands
  /// that rows share then enter the first-level cache once per block, and the other statements find their row
  /// in it.
  bool wants_blocks(const Target& target) const {
    int64_t own = 0, shared = 0;
    for (const auto& op : last_.ops) {
      if (op.code != FE_OP_LOAD) continue;
      if (is_stored_before(op.buffer) && !is_scalar(kernel_.buffers[op.buffer])) return false;
      if (is_along_vector(plans_.back(), op)) (is_of_one_row(op) ? own : shared) += row_bytes(op.buffer);
    }
    return shared > 0 && own + shared <= target.l1_bytes && bytes_at_work() + own > target.l1_bytes;
  }

  /// Whether the next row of a buffer fits into the first-level cache beside the data of a delayed row.
  bool has_room(const Target& target, BufferId ahead) const {
    return bytes_at_work() + row_bytes(ahead) <= target.l1_bytes;
  }

  /// The scalars of a row that the last statement reads.
  std::vector<BufferId> scalars() const {
    std::vector<BufferId> result;
    for (const auto& op : last_.ops)
      if (op.code == FE_OP_LOAD && is_scalar(kernel_.buffers[op.buffer]) &&
          std::ranges::find(result, op.buffer) == result.end())
        result.push_back(op.buffer);
    return result;
  }

 private:
  int64_t row_bytes(BufferId buffer) const {
    return last_.vars[*plans_.back().vector].extent *
           static_cast<int64_t>(KernelContext::storage_bytes(kernel_.buffers[buffer].dtype));
  }

  index::Expr address(const loop::BodyOp& load) const {
    return element_address(kernel_.pool, kernel_.buffers[load.buffer], load.index);
  }
  bool is_along_vector(const StatementPlan& plan, const loop::BodyOp& op) const {
    return op.code == FE_OP_LOAD &&
           kernel_.pool.depends_on(address(op), plan.statement.vars[*plan.vector].symbol);
  }
  bool is_of_one_row(const loop::BodyOp& load) const {
    const std::span rows(last_.vars.data(), kernel_.shared);
    return std::ranges::any_of(
        rows, [&](const auto& var) { return kernel_.pool.depends_on(address(load), var.symbol); });
  }

  /// Bytes that the last statement and the one before it read along a row. Results do not count, since they
  /// bypass the caches.
  int64_t bytes_at_work() const {
    int64_t bytes = 0;
    for (const auto& plan : plans_.last(2))
      for (const auto& op : plan.statement.ops)
        if (is_along_vector(plan, op)) bytes += row_bytes(op.buffer);
    return bytes;
  }

  bool is_stored_before(BufferId buffer) const {
    return std::ranges::any_of(plans_.first(plans_.size() - 1), [&](const StatementPlan& plan) {
      return std::ranges::any_of(plan.statement.stores,
                                 [&](const loop::Store& store) { return store.buffer == buffer; });
    });
  }

  bool is_touched_before(BufferId buffer) const {
    return is_stored_before(buffer) ||
           std::ranges::any_of(plans_.first(plans_.size() - 1), [&](const StatementPlan& plan) {
             return std::ranges::any_of(plan.statement.ops, [&](const loop::BodyOp& op) {
               return op.code == FE_OP_LOAD && op.buffer == buffer;
             });
           });
  }

  /// Whether a load still finds the values that the preceding statement stored at the previous row and the
  /// same vector. That statement must be the only one that stores there, at every point, at an address that
  /// does not depend on the row, and once per element.
  bool is_left_by_lead(const loop::BodyOp& load) const {
    const auto& lead = plans_[plans_.size() - 2];
    for (const auto& plan : plans_.first(plans_.size() - 2))
      for (const auto& store : plan.statement.stores)
        if (store.buffer == load.buffer) return false;
    auto& pool = kernel_.pool;
    const auto& buffer = kernel_.buffers[load.buffer];
    const auto element = element_part(pool, lead.statement);
    const auto from = element_address(pool, buffer, load.index);
    for (size_t k = 0; k < kernel_.shared; ++k)
      if (pool.depends_on(from, last_.vars[k].symbol)) return false;
    const std::pair<index::Symbol, index::Expr> same_vector[] = {
        {last_.vars[*plans_.back().vector].symbol, pool.symbol(lead.statement.vars[*lead.vector].symbol)}};
    const auto at_lead = pool.substitute(from, same_vector);
    // Different vectors access different elements.
    const auto step = pool.coefficient(at_lead, lead.statement.vars[*lead.vector].symbol);
    if (!step || *step == 0) return false;
    return std::ranges::all_of(lead.statement.stores, [&](const loop::Store& store) {
      if (store.buffer != load.buffer) return true;
      const bool at_points =
          lead.vector_is_parallel() || stores_elements(pool, lead.statement, store, element);
      return at_points && store.mask == loop::none && store.mode == FE_STORE_SET &&
             element_address(pool, buffer, store.index) == at_lead;
    });
  }

  loop::Kernel& kernel_;
  std::span<const StatementPlan> plans_;
  const loop::Statement& last_;
};

class Rows {
 public:
  Rows(KernelContext& context, const Target& target)
      : context_(context), kernel_(context.kernel), shared_(kernel_.statements[0].vars) {
    for (const auto& statement : kernel_.statements) {
      for (size_t k = 0; k < kernel_.shared; ++k)
        apart_ = apart_ && (statement.vars[k].extent == 1 || independent(kernel_.pool, statement, k));
      plans_.push_back(plan_statement(target, kernel_, statement, kernel_.shared));
    }
    each_ahead_ = next_rows(target, kernel_, plans_);
    const Last last(kernel_, plans_);
    if (!apart_ || !last.may_be_late()) return;
    scalars_ = last.scalars();
    if (last.wants_blocks(target)) {
      streamed_ = Order::blocks;
      streamed_ahead_ = next_block(target, kernel_, plans_, rows_of_block);
      return;
    }
    streamed_ = Order::late;
    streamed_ahead_ = next_rows(target, kernel_, std::span(plans_).first(plans_.size() - 1));
    for (auto& reads : streamed_ahead_)
      for (auto& ahead : reads)
        if (last.has_room(target, ahead.buffer)) ahead.level = KernelContext::Level::first;
  }

  void emit(EmitResult& result) {
    int64_t rows = 1;
    for (size_t k = 0; k < kernel_.shared; ++k) rows *= shared_[k].extent;
    double cycles = 20;
    for (const auto& plan : plans_) cycles += points_of(plan) * plan.cycles;
    result.tasks = apart_ ? rows : std::min<int64_t>(rows, 1);
    result.grain = std::max<int64_t>(1, static_cast<int64_t>(cycles_of_range / cycles));
    if (std::ranges::all_of(plans_, [](const StatementPlan& plan) { return is_empty(plan.statement); }))
      result.tasks = 0;
    if (result.tasks == 0) return;
    auto* from = apart_ ? context_.begin : context_.i64(0);
    auto* to = apart_ ? context_.end : context_.i64(rows);
    // Delaying only helps streaming stores; with plain stores the rows run in order.
    with_streams(context_, plans_, [&](bool streams) {
      if (streams && streamed_ == Order::late) return emit_late(from, to);
      auto* rest = streams && streamed_ == Order::blocks ? emit_blocks(from, to) : from;
      context_.loop(rest, to, 1, "row", [&](llvm::Value* row) {
        const auto at = coordinates(row);
        for (size_t number = 0; number < plans_.size(); ++number)
          emit_one(number, at, streams, each_ahead_[number], {});
      });
    });
  }

 private:
  using Coordinates = std::vector<llvm::Value*>;
  using Reads = std::vector<StatementEmitter::Ahead>;

  Coordinates coordinates(llvm::Value* row) {
    return context_.coordinates({shared_.data(), kernel_.shared}, row);
  }

  Point point_at(const StatementPlan& plan, const Coordinates& at) const {
    Point point;
    for (size_t k = 0; k < kernel_.shared; ++k) point.set(plan.statement.vars[k].symbol, at[k]);
    return point;
  }

  void emit_one(size_t number, const Coordinates& at, bool streams, const Reads& reads,
                std::function<void(const std::vector<Point>&)> beside) {
    const auto& plan = plans_[number];
    if (is_empty(plan.statement)) return;
    StatementEmitter statement(context_, plan, streams);
    statement.prefetch_ahead(reads);
    statement.beside(std::move(beside));
    statement.emit(point_at(plan, at), 0, {});
  }

  /// Calls `emit` with the scalars moved to these addresses.
  void with_scalars(const std::vector<llvm::Value*>& places, const std::function<void()>& emit) {
    std::vector<llvm::Value*> bases;
    for (size_t k = 0; k < places.size(); ++k) {
      bases.push_back(context_.base(scalars_[k]));
      context_.move_base(scalars_[k], places[k]);
    }
    emit();
    for (size_t k = 0; k < places.size(); ++k) context_.move_base(scalars_[k], bases[k]);
  }

  /// Emits blocks: all statements but the last at each row of a block, then the last one at all its rows.
  /// Returns the first row after the last full block.
  llvm::Value* emit_blocks(llvm::Value* from, llvm::Value* to) {
    auto& builder = context_.builder;
    const size_t last = plans_.size() - 1;
    std::vector<llvm::AllocaInst*> kept;  // by scalar: one value per row of a block
    for (const auto buffer : scalars_)
      kept.push_back(context_.slot(
          llvm::ArrayType::get(context_.storage_type(kernel_.buffers[buffer].dtype), rows_of_block),
          "block.rows"));
    // Calls `emit` for row `number` of a block, with that row's scalars.
    const auto at_number = [&](llvm::Value* number, const std::function<void()>& emit) {
      std::vector<llvm::Value*> places;
      for (auto* rows : kept)
        places.push_back(
            builder.CreateInBoundsGEP(rows->getAllocatedType(), rows, {context_.i64(0), number}));
      with_scalars(places, emit);
    };
    auto* count = builder.CreateNSWSub(to, from);
    auto* rest = builder.CreateNSWSub(to, builder.CreateSRem(count, context_.i64(rows_of_block)));
    context_.loop(from, rest, rows_of_block, "block", [&](llvm::Value* first) {
      context_.loop(context_.i64(0), context_.i64(rows_of_block), 1, "block.row", [&](llvm::Value* number) {
        const auto at = coordinates(builder.CreateNSWAdd(first, number));
        at_number(number, [&] {
          for (size_t k = 0; k < last; ++k) emit_one(k, at, true, streamed_ahead_[k], {});
        });
      });
      std::vector<Coordinates> rows;
      for (int64_t k = 0; k < rows_of_block; ++k)
        rows.push_back(coordinates(builder.CreateNSWAdd(first, context_.i64(k))));
      StatementEmitter result(context_, plans_[last], true);
      at_number(context_.i64(rows_of_block - 1), [&] {
        emit_one(last, rows.back(), true, streamed_ahead_[last], [&](const std::vector<Point>& points) {
          for (int64_t k = 0; k + 1 < rows_of_block; ++k) {
            auto same = points;
            for (auto& point : same)
              for (size_t d = 0; d < kernel_.shared; ++d)
                point.set(plans_[last].statement.vars[d].symbol, rows[static_cast<size_t>(k)][d]);
            at_number(context_.i64(k), [&] { result.at(same); });
          }
        });
      });
    });
    return rest;
  }

  /// Emits all statements but the last at the first row; at each further row, the last statement of the
  /// previous row interleaved with its predecessor; finally the last statement of the last row.
  void emit_late(llvm::Value* from, llvm::Value* to) {
    auto& builder = context_.builder;
    const size_t last = plans_.size() - 1, lead = last - 1;
    std::vector<llvm::Value*> kept;
    for (const auto buffer : scalars_)
      kept.push_back(context_.slot(context_.storage_type(kernel_.buffers[buffer].dtype), "row.before"));
    context_.when(builder.CreateICmpSLT(from, to), "rows", [&] {
      const auto first = coordinates(from);
      for (size_t number = 0; number < last; ++number)
        emit_one(number, first, true, streamed_ahead_[number], {});
      context_.loop(builder.CreateNSWAdd(from, context_.i64(1)), to, 1, "row.late", [&](llvm::Value* row) {
        // The scalars are overwritten by the next row before the delayed statement reads them: save them.
        for (size_t k = 0; k < kept.size(); ++k)
          builder.CreateStore(builder.CreateLoad(context_.storage_type(kernel_.buffers[scalars_[k]].dtype),
                                                 context_.base(scalars_[k])),
                              kept[k]);
        const auto at = coordinates(row);
        const auto before = point_at(plans_[last], coordinates(builder.CreateNSWSub(row, context_.i64(1))));
        StatementEmitter result(context_, plans_[last], true);
        for (size_t number = 0; number < lead; ++number)
          emit_one(number, at, true, streamed_ahead_[number], {});
        emit_one(lead, at, true, streamed_ahead_[lead], [&](const std::vector<Point>& points) {
          with_scalars(kept, [&] { result.at(same_vectors(before, points)); });
        });
      });
      emit_one(last, coordinates(builder.CreateNSWSub(to, context_.i64(1))), true, {}, {});
    });
  }

  /// The vectors of the last statement at another row, at the same positions as those of its predecessor.
  std::vector<Point> same_vectors(const Point& row, const std::vector<Point>& lead) const {
    const auto &last = plans_.back(), &before = plans_[plans_.size() - 2];
    std::vector<Point> result;
    for (const auto& there : lead) {
      auto& point = result.emplace_back(row);
      for (size_t k = kernel_.shared; k < last.statement.vars.size(); ++k)
        point.set(last.statement.vars[k].symbol, context_.i64(0));
      point.vector = last.statement.vars[*last.vector].symbol;
      point.set(point.vector, there.at(before.statement.vars[*before.vector].symbol));
      point.lanes = there.lanes;
      point.aligned = there.aligned;
      point.mask = there.mask;
    }
    return result;
  }

  KernelContext& context_;
  loop::Kernel& kernel_;
  const std::vector<loop::Var>& shared_;
  std::vector<StatementPlan> plans_;
  bool apart_ = true;  ///< rows may run in parallel
  enum class Order : uint8_t { rows, late, blocks };
  Order streamed_ = Order::rows;   ///< order of statements whose results bypass the caches
  std::vector<BufferId> scalars_;  ///< scalars of a row that are kept until its last statement
  std::vector<Reads> each_ahead_, streamed_ahead_;
};

}  // namespace

void emit_rows(KernelContext& context, const Target& target, EmitResult& result) {
  Rows(context, target).emit(result);
}

}  // namespace ferrite::emitter
