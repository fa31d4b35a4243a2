// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "rows.h"

#include <algorithm>
#include <utility>

#include "statement_emitter.h"
#include "statement_memory.h"

namespace ferrite::emitter {
namespace {

using loop::BufferId;
using loop::VarKind;

/// Whether all that a statement does at a row is one loop over vectors.
bool is_one_loop(const StatementPlan& plan) {
  const auto& statement = plan.statement;
  if (!plan.vector || plan.inside || !plan.turned.empty() || plan.strip > 0 ||
      statement.has(VarKind::serial) || is_empty(statement))
    return false;
  for (size_t k = plan.fixed; k < statement.vars.size(); ++k)
    if (k != *plan.vector && statement.vars[k].extent != 1) return false;
  return true;
}

bool is_scalar(const loop::Buffer& buffer) { return buffer.kind == FE_BUFFER_LOCAL && buffer.extent() <= 1; }

/// The last statement of rows, and the one before it, at whose vectors it may be done for the row before.
class Late {
 public:
  Late(loop::Kernel& kernel, std::span<const StatementPlan> plans)
      : kernel_(kernel), plans_(plans), last_(plans.back().statement) {}

  bool is_possible() const {
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
      if (kernel_.buffers[store.buffer].kind == FE_BUFFER_LOCAL || store.mode != FE_STORE_SET ||
          is_touched_before(store.buffer))
        return false;
    return std::ranges::all_of(last_.ops, [&](const loop::BodyOp& op) {
      return op.code != FE_OP_LOAD || !is_stored_before(op.buffer) || is_scalar(kernel_.buffers[op.buffer]) ||
             is_left_by_lead(op);
    });
  }

  /// Bytes that pass while the last statement goes along a row, beside the one before it, and while the next row of `ahead` comes:
  /// what each of the two reads, results apart, which go past the caches.
  int64_t bytes_at_work(BufferId ahead) const {
    const auto row = [&](BufferId buffer) {
      return last_.vars[*plans_.back().vector].extent *
             static_cast<int64_t>(KernelContext::storage_bytes(kernel_.buffers[buffer].dtype));
    };
    int64_t bytes = row(ahead);
    for (const auto& plan : plans_.last(2)) {
      const auto vector = plan.statement.vars[*plan.vector].symbol;
      for (const auto& op : plan.statement.ops)
        if (op.code == FE_OP_LOAD &&
            kernel_.pool.depends_on(element_address(kernel_.pool, kernel_.buffers[op.buffer], op.index),
                                    vector))
          bytes += row(op.buffer);
    }
    return bytes;
  }

  /// The values of one row that the last statement reads.
  std::vector<BufferId> scalars() const {
    std::vector<BufferId> result;
    for (const auto& op : last_.ops)
      if (op.code == FE_OP_LOAD && is_scalar(kernel_.buffers[op.buffer]) &&
          std::ranges::find(result, op.buffer) == result.end())
        result.push_back(op.buffer);
    return result;
  }

 private:
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

  /// Whether what is loaded still stands where the statement before it has put it at the row before, when that is at the same vector:
  /// it is the only one that stores there, at every point, at the same place in every row, and each element once.
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
    // Each vector has elements of its own.
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
    const Late late(kernel_, plans_);
    if (!apart_ || !late.is_possible()) return;
    late_ = true;
    scalars_ = late.scalars();
    late_ahead_ = next_rows(target, kernel_, std::span(plans_).first(plans_.size() - 1));
    for (auto& reads : late_ahead_)
      for (auto& ahead : reads)
        if (late.bytes_at_work(ahead.buffer) <= target.l1_bytes) ahead.level = KernelContext::Level::first;
  }

  void emit(EmitResult& result) {
    int64_t rows = 1;
    for (size_t k = 0; k < kernel_.shared; ++k) rows *= shared_[k].extent;
    double cycles = 20;
    for (const auto& plan : plans_) cycles += points_of(plan) * plan.cycles;
    result.tasks = apart_ ? rows : std::min<int64_t>(rows, 1);
    result.grain = std::max<int64_t>(1, static_cast<int64_t>(cycles_of_share / cycles));
    if (std::ranges::all_of(plans_, [](const StatementPlan& plan) { return is_empty(plan.statement); }))
      result.tasks = 0;
    if (result.tasks == 0) return;
    auto* from = apart_ ? context_.begin : context_.i64(0);
    auto* to = apart_ ? context_.end : context_.i64(rows);
    with_streams(context_, plans_, [&](bool streams) {
      if (streams && late_) return emit_late(from, to);
      context_.loop(from, to, 1, "row", [&](llvm::Value* row) {
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
    statement.ask_ahead(reads);
    statement.beside(std::move(beside));
    statement.emit(point_at(plan, at), 0, {});
  }

  /// All statements but the last at the first row; at each other row the last one of the row before, beside the one before it; the last
  /// one of the last row.
  void emit_late(llvm::Value* from, llvm::Value* to) {
    auto& builder = context_.builder;
    const size_t last = plans_.size() - 1, lead = last - 1;
    std::vector<llvm::AllocaInst*> kept;
    for (const auto buffer : scalars_)
      kept.push_back(context_.slot(context_.storage_type(kernel_.buffers[buffer].dtype), "row.before"));
    context_.when(builder.CreateICmpSLT(from, to), "rows", [&] {
      const auto first = coordinates(from);
      for (size_t number = 0; number < last; ++number) emit_one(number, first, true, late_ahead_[number], {});
      context_.loop(builder.CreateNSWAdd(from, context_.i64(1)), to, 1, "row.late", [&](llvm::Value* row) {
        for (size_t k = 0; k < kept.size(); ++k)
          builder.CreateStore(builder.CreateLoad(kept[k]->getAllocatedType(), context_.base(scalars_[k])),
                              kept[k]);
        const auto at = coordinates(row);
        const auto before = point_at(plans_[last], coordinates(builder.CreateNSWSub(row, context_.i64(1))));
        StatementEmitter result(context_, plans_[last], true);
        for (size_t number = 0; number < lead; ++number) emit_one(number, at, true, late_ahead_[number], {});
        emit_one(lead, at, true, late_ahead_[lead], [&](const std::vector<Point>& points) {
          std::vector<llvm::Value*> bases;
          for (size_t k = 0; k < kept.size(); ++k) {
            bases.push_back(context_.base(scalars_[k]));
            context_.move_base(scalars_[k], kept[k]);
          }
          result.at(same_vectors(before, points));
          for (size_t k = 0; k < kept.size(); ++k) context_.move_base(scalars_[k], bases[k]);
        });
      });
      emit_one(last, coordinates(builder.CreateNSWSub(to, context_.i64(1))), true, {}, {});
    });
  }

  /// The vectors of the last statement at another row that lie where those of the statement before it do.
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
  bool apart_ = true;  ///< rows may be done at the same time
  bool late_ = false;
  std::vector<BufferId> scalars_;  ///< what of a row has to be kept until its last statement
  std::vector<Reads> each_ahead_, late_ahead_;
};

}  // namespace

void emit_rows(KernelContext& context, const Target& target, EmitResult& result) {
  Rows(context, target).emit(result);
}

}  // namespace ferrite::emitter
