// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Running sums over few rows become three kernels; those that walk the elements have many parts.
#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "core/ir/loop/trivial_loops.h"
#include "core/schedule/rewrites/loop_splitter.h"
#include "core/schedule/rewrites/split.h"
#include "core/schedule/traffic.h"
#include "ferrite/analysis/running_state.hpp"
#include "ferrite/loop_check.hpp"

namespace ferrite::core::schedule {
namespace {

using ferrite::loop::RunningState;

std::optional<uint32_t> reduction_by(Prim combine) {
  switch (combine) {
    case Prim::add_: return FE_REDUCE_SUM;
    case Prim::mul_: return FE_REDUCE_PROD;
    case Prim::min_: return FE_REDUCE_MIN;
    case Prim::max_: return FE_REDUCE_MAX;
    default: return std::nullopt;
  }
}

/// The states of a serial loop that may be divided; empty where it may not.
std::vector<RunningState> states_of(const LoopProgram& program, const Statement& statement) {
  const auto states = ferrite::loop::running_states(program.pool, statement);
  if (!states || reads_only_constants(program, statement)) return {};
  if (!std::ranges::all_of(*states,
                           [](const RunningState& state) { return reduction_by(state.combine).has_value(); }))
    return {};
  for (const auto& store : statement.stores) {
    // Parts run in parallel, so they must not read the buffer that they store, and each must have elements of
    // its own.
    if (ferrite::loop::is_indirect(program.pool, statement, store.index)) return {};
    if (std::ranges::count(statement.stores, store.buffer, &Store::buffer) > 1) return {};
    const auto step = step_of(program, store.buffer, store.index, statement.vars.back().symbol);
    if (!step || *step == 0) return {};
    for (const auto& op : statement.ops)
      if (op.code == FE_OP_LOAD && program.storage(op.buffer) == program.storage(store.buffer)) return {};
  }
  return *states;
}

/// The number of parts into which each row should be divided; 1 where none. As for reductions, but the
/// divided loop is read twice, and the totals and the starts are two more launches.
int64_t parts_that_pay(const Statement& statement, const TargetNumbers& target) {
  constexpr int64_t least_steps = 64;  // of a part: a shorter one is not worth computing its total
  const int64_t rows = statement.points(VarKind::parallel), steps = statement.points(VarKind::serial);
  if (rows < 1 || rows >= target.workers) return 1;
  const auto operations = std::ranges::count_if(statement.ops, [](const BodyOp& op) { return op.is_prim(); });
  const int64_t work = rows * steps * target.elements_of_point(operations);
  const int64_t launch = target.launch_points();
  const int64_t parts = std::min({target.workers * parts_of_worker / rows,
                                  work / std::max<int64_t>(1, launch / 2), steps / least_steps});
  if (parts < 2) return 1;
  const auto stored = static_cast<int64_t>(statement.stores.size());
  const int64_t whole = work * (1 + stored) / rows;
  const int64_t divided =
      work * (2 + stored) / std::min(rows * parts, target.workers) + 2 * parts + 2 * launch;
  return divided < whole ? parts : 1;
}

/// The bytes for each part: its total and its start value.
int64_t bytes_of_part(const Statement& whole, std::span<const RunningState> states) {
  int64_t bytes = 0;
  for (size_t k = 0; k < states.size(); ++k) bytes += 2 * bits_of(whole.carries[k].dtype) / 8;
  return bytes * std::max<int64_t>(1, whole.points(VarKind::parallel));
}

class ScanSplitter {
 public:
  ScanSplitter(LoopProgram& program, ProgramStatement whole, std::vector<RunningState> states, Cut cut)
      : program_(program), whole_(std::move(whole)), states_(std::move(states)), cut_(cut) {}

  /// The statement that computes the total of each part's steps, independent of the parts before it.
  ProgramStatement totals() {
    ProgramStatement sums = whole_;
    sums.kind = FE_STATEMENT_REDUCE;
    sums.vars.back().kind = VarKind::reduction;
    sums.carries.clear();
    sums.stores.clear();
    for (size_t k = 0; k < states_.size(); ++k) sums.reductions.push_back(reduction(k));
    auto result = Splitter(program_, sums, {}, cut_).part(false);
    for (const auto& store : result.stores) totals_.push_back(store.buffer);
    return result;
  }

  /// The statement that computes the start value of each part and of the rest.
  ProgramStatement starts() {
    auto& pool = program_.pool;
    ProgramStatement result;
    result.kind = FE_STATEMENT_SERIAL;
    result.origins = whole_.origins;
    const int64_t count = cut_.parts + (cut_.rest > 0 ? 1 : 0);
    std::vector<index::Expr> at(1);
    for (size_t k = 0; k <= whole_.parallel_count(); ++k) {
      const bool last = k == whole_.parallel_count();
      const int64_t extent = last ? count : whole_.vars[k].extent;
      result.vars.push_back(
          {pool.new_symbol({0, extent - 1}), extent, last ? VarKind::serial : VarKind::parallel});
      const auto place = pool.symbol(result.vars.back().symbol);
      if (last)
        at[0] = place;
      else
        at.push_back(place);
    }
    BodyWriter body(pool);
    const OpId exists = cut_.rest > 0 ? is_part(body, at[0]) : none;  // the rest has no total
    for (size_t k = 0; k < states_.size(); ++k) {
      const DType dtype = whole_.carries[k].dtype;
      const OpId other = exists == none ? none : body.builder.constant(dtype, identity_bits(reduction(k)));
      const OpId total = load(body, totals_[k], at, exists, other), state = carried(body, k);
      result.carries.push_back(
          {dtype, whole_.carries[k].init_bits, body.prim(states_[k].combine, dtype, state, total)});
      starts_.push_back(static_cast<BufferId>(program_.buffers.size()));
      program_.buffers.push_back(ProgramBuffer(program_.buffers[totals_[k]]));
      result.stores.push_back({starts_.back(), at, state, none, FE_STORE_SET});
    }
    result.ops = std::move(body.ops);
    return result;
  }

  /// The statement of all parts, or that of the rest.
  ///
  /// Turn this: carry 0 = add carried 0, %v;           store @o[i] = f(carried 0)
  /// into this: carry 0 = add carried 0, %v from zero; store @o[p*steps + i] = f(add @starts[p], carried 0)
  ProgramStatement part(bool rest) {
    auto& pool = program_.pool;
    ProgramStatement result;
    result.origins = whole_.origins;
    result.stores = whole_.stores;
    const PartLoops loops(pool, whole_, cut_, rest);
    result.vars = loops.vars;
    BodyWriter body(pool);
    auto ops = whole_.ops;
    for (auto& op : ops)
      if (op.code == FE_OP_CARRIED) {
        op.code = FE_OP_LOAD;
        op.buffer = starts_[op.bits];
        op.index = loops.at;
        op.bits = 0;
      }
    const auto numbers =
        body.splice(ops, loops.symbols, none, [&](const BodyOp& start) -> std::optional<OpId> {
          const auto found = std::ranges::find(starts_, start.buffer);
          if (found == starts_.end()) return std::nullopt;
          const auto k = static_cast<size_t>(found - starts_.begin());
          return body.prim(states_[k].combine, start.dtype, body.builder.add(start), carried(body, k));
        });
    renumber(result, numbers);
    for (size_t k = 0; k < states_.size(); ++k) {
      const DType dtype = whole_.carries[k].dtype;
      const OpId next = body.prim(states_[k].combine, dtype, carried(body, k), numbers[states_[k].value]);
      result.carries.push_back({dtype, identity_bits(reduction(k)), next});
    }
    for (auto& store : result.stores) {
      for (auto& expr : store.index) expr = pool.substitute(expr, loops.symbols);
      if (rest) store.buffer = replaced_by_version(store.buffer);
    }
    result.ops = std::move(body.ops);
    flatten_trivial_loops(pool, result);
    remove_dead(pool, result);
    result.kind = ferrite::loop::derived_kind(pool, result);
    return result;
  }

 private:
  Reduction reduction(size_t k) const {
    return {*reduction_by(states_[k].combine), states_[k].value, none, whole_.carries[k].dtype};
  }

  OpId carried(BodyWriter& body, size_t k) const {
    BodyOp op;
    op.code = FE_OP_CARRIED;
    op.dtype = whole_.carries[k].dtype;
    op.bits = k;
    return body.builder.add(std::move(op));
  }

  OpId load(BodyWriter& body, BufferId buffer, const std::vector<index::Expr>& at, OpId mask,
            OpId other) const {
    BodyOp op;
    op.code = FE_OP_LOAD;
    op.dtype = program_.buffers[buffer].dtype;
    op.buffer = buffer;
    op.index = at;
    op.a = mask;
    op.b = other;
    return body.builder.add(std::move(op));
  }

  OpId is_part(BodyWriter& body, index::Expr number) const {
    BodyOp op;
    op.code = FE_OP_INDEX;
    op.dtype = DType::i64_;
    op.index = {number};
    const OpId parts = body.builder.constant(DType::i64_, static_cast<uint64_t>(cut_.parts));
    return body.prim(Prim::lt_, DType::bool_, body.builder.add(std::move(op)), parts);
  }

  /// A version of the result for the time after the rest was added; readers of the result now read the
  /// version.
  BufferId replaced_by_version(BufferId base) {
    const auto version = program_.add_version(base);
    std::ranges::replace(program_.outputs, base, version);
    for (auto& statement : program_.statements) {
      std::ranges::replace(statement.call.reads, base, version);
      for (auto& op : statement.ops)
        if (op.code == FE_OP_LOAD && op.buffer == base) op.buffer = version;
    }
    return version;
  }

  LoopProgram& program_;
  const ProgramStatement whole_;
  const std::vector<RunningState> states_;
  const Cut cut_;
  std::vector<BufferId> totals_, starts_;  ///< by state
};

/// Whether each buffer that the statement stores has one version.
bool is_written_once(const LoopProgram& program, const Statement& statement) {
  for (const auto& store : statement.stores)
    if (program.buffers[store.buffer].base != none ||
        std::ranges::any_of(program.buffers,
                            [&](const ProgramBuffer& other) { return other.base == store.buffer; }))
      return false;
  return true;
}

}  // namespace

void split_scans(Schedule& schedule, const TargetNumbers& target, const MemoryLimit& memory, Ledger& ledger) {
  auto& program = schedule.program;
  std::vector<Group> groups;
  for (const auto& group : schedule.groups) {
    const auto& whole = program.statements[group.statements[0]];
    auto states = group.statements.size() == 1 ? states_of(program, whole) : std::vector<RunningState>();
    const auto cut = states.empty() ? Cut()
                                    : cut_within(whole, parts_that_pay(whole, target),
                                                 bytes_of_part(whole, states), memory.for_parts());
    if (cut.parts < 2) {
      groups.push_back(group);
      continue;
    }
    // The rest needs a version of its own.
    if (cut.rest > 0 && !is_written_once(program, whole)) {
      ledger.add({"parts",
                  origin_names(whole),
                  {},
                  "not divided",
                  "several writers",
                  fmt::format("{} parts of {} would leave a rest of {} that stores where others do",
                              cut.parts, cut.steps, cut.rest),
                  0});
      groups.push_back(group);
      continue;
    }
    ledger.add({"parts",
                origin_names(whole),
                {},
                "divided",
                {},
                fmt::format("{} parts of {}{}", cut.parts, cut.steps,
                            cut.rest > 0 ? fmt::format(", and {} more", cut.rest) : ""),
                static_cast<double>(whole.points(VarKind::parallel) * whole.points(VarKind::serial))});
    ScanSplitter splitter(program, whole, std::move(states), cut);
    const auto add = [&](ProgramStatement statement) {
      groups.push_back({{static_cast<uint32_t>(program.statements.size())},
                        static_cast<uint32_t>(statement.parallel_count())});
      program.statements.push_back(std::move(statement));
    };
    add(splitter.totals());
    add(splitter.starts());
    add(splitter.part(false));
    if (cut.rest > 0) add(splitter.part(true));
  }
  if (groups.size() == schedule.groups.size()) return;
  schedule.groups = std::move(groups);
  number_by_group(schedule);
}

}  // namespace ferrite::core::schedule
