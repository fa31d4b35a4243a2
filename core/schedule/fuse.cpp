// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <algorithm>
#include <optional>
#include <queue>

#include <fmt/format.h>

#include "core/schedule/schedule.h"

namespace ferrite::core::schedule {
namespace {

struct Edge {
  uint32_t producer, consumer;
  int64_t bytes;
};

/// How many leading loops agree on a dim of the buffer that `writer` stores and `reader` loads, at most `limit`.
uint32_t aligned(const LoopProgram& program, const Statement& writer, const std::vector<index::Expr>& stored,
                 const Statement& reader, const std::vector<index::Expr>& loaded, uint32_t limit) {
  uint32_t shared = 0;
  for (; shared < limit; ++shared) {
    bool found = false;
    for (size_t d = 0; d < stored.size() && d < loaded.size() && !found; ++d)
      found = program.pool.as_symbol(stored[d]) == writer.vars[shared].symbol &&
              program.pool.as_symbol(loaded[d]) == reader.vars[shared].symbol;
    if (!found) break;
  }
  return shared;
}

/// Groups as a union over statements; each keeps its members in order.
class Fuser {
 public:
  Fuser(const LoopProgram& program, const FusionRequests& requests, const FusionLimits& limits,
        Ledger& ledger)
      : program_(program),
        requests_(requests),
        limits_(limits),
        ledger_(ledger),
        deps_(Dependencies::of(program)) {
    groups_.resize(program.statements.size());
    group_of_.resize(program.statements.size());
    for (uint32_t s = 0; s < groups_.size(); ++s) {
      groups_[s].statements = {s};
      groups_[s].shared = static_cast<uint32_t>(program.statements[s].parallel_count());
      group_of_[s] = s;
    }
  }

  std::vector<Group> run() {
    if (limits_.fuse) {
      for (auto [a, b] : requests_.forced) attempt({a, b, 0});
      auto edges = this->edges();
      std::stable_sort(edges.begin(), edges.end(),
                       [](const Edge& x, const Edge& y) { return x.bytes > y.bytes; });
      for (const auto& edge : edges) attempt(edge);
    }
    return ordered();
  }

 private:
  std::vector<Edge> edges() const {
    std::vector<Edge> result;
    for (uint32_t s = 0; s < program_.statements.size(); ++s)
      for (BufferId b : deps_.reads[s])
        for (uint32_t w : deps_.writers[b])
          if (w < s) result.push_back({w, s, program_.buffers[b].bytes()});
    return result;
  }

  void attempt(const Edge& edge) {
    uint32_t a = group_of_[edge.producer], b = group_of_[edge.consumer];
    if (a == b) return;
    if (groups_[a].statements[0] > groups_[b].statements[0]) std::swap(a, b);
    std::string text;
    uint32_t shared = 0;
    std::string category = refusal(a, b, shared, text);
    LedgerRecord record{"fusion",
                        origin_names(program_.statements[edge.producer]),
                        origin_names(program_.statements[edge.consumer]),
                        {},
                        {},
                        {},
                        static_cast<double>(edge.bytes)};
    record.outcome = category.empty() ? "fused" : "refused";
    record.category = category;
    record.text = text;
    ledger_.add(std::move(record));
    if (category.empty()) join(a, b, shared);
  }

  /// Empty when the groups can be one kernel over `shared` common loops; otherwise the category, and why in `text`.
  std::string refusal(uint32_t a, uint32_t b, uint32_t& shared, std::string& text) const {
    const auto& first = groups_[a];
    const auto& second = groups_[b];
    for (uint32_t x : first.statements)
      for (uint32_t y : second.statements)
        if (requests_.forbidden.count({std::min(x, y), std::max(x, y)})) {
          text = "a pass forbade it";
          return "forbidden";
        }
    if (first.statements.size() + second.statements.size() > limits_.most_statements) {
      text = fmt::format("more than {} statements", limits_.most_statements);
      return "size limit";
    }
    bool contract = false;
    for (const auto* group : {&first, &second})
      for (uint32_t s : group->statements) {
        const auto& statement = program_.statements[s];
        if (statement.kind == FE_STATEMENT_CALL || statement.kind == FE_STATEMENT_SCATTER ||
            statement.kind == FE_STATEMENT_SERIAL) {
          text = "a scatter, a serial loop or an opaque call is a kernel of its own";
          return "not a memory dependency";
        }
        if (statement.kind == FE_STATEMENT_CONTRACT) {
          if (s != first.statements[0] || contract) {
            text = "a contraction only takes what follows it";
            return "different loop order";
          }
          contract = true;
        }
      }
    uint32_t limit = std::min(first.shared, second.shared);
    shared = limit;
    for (uint32_t x : first.statements)
      for (uint32_t y : second.statements) shared = std::min(shared, common_loops(program_, x, y, shared));
    if (shared == 0) {
      text = "the loops around the shared buffer differ";
      return "different loop order";
    }
    if (contract) {
      const auto& product = program_.statements[first.statements[0]];
      if (shared != product.parallel_count()) {
        text = "not all loops of the contraction are shared";
        return "different loop order";
      }
      for (const auto* group : {&first, &second})
        for (uint32_t s : group->statements)
          if (s != first.statements[0] && (program_.statements[s].kind != FE_STATEMENT_MAP ||
                                           program_.statements[s].vars.size() != shared)) {
            text = "an epilogue has the loops of its contraction";
            return "different loop order";
          }
    }
    if (!contract && !same_loops(first, second, shared)) {
      int64_t points = 1;
      const auto& vars = program_.statements[first.statements[0]].vars;
      for (uint32_t k = 0; k < shared; ++k) points *= vars[k].extent;
      if (points < limits_.least_shared_points && work(first) + work(second) > limits_.small_work) {
        text = fmt::format("only {} iterations are shared", points);
        return "cost";
      }
      if (int64_t bytes = local_bytes(first, second, shared); bytes > limits_.local_bytes) {
        text = fmt::format("{} bytes between the parts of one iteration", bytes);
        return "cost";
      }
    }
    if (path_around(first, second)) {
      text = "another kernel stands between them";
      return "cycle";
    }
    return {};
  }

  static bool is_map_over(const Statement& statement, uint32_t shared) {
    return statement.vars.size() == shared ||
           (statement.kind == FE_STATEMENT_REDUCE && statement.parallel_count() == shared);
  }
  /// Whether one loop nest serves all statements: nothing then lives longer than a point.
  bool same_loops(const Group& first, const Group& second, uint32_t shared) const {
    size_t reductions = 0;
    for (const auto* group : {&first, &second})
      for (uint32_t s : group->statements) {
        const auto& statement = program_.statements[s];
        if (statement.vars.size() == shared) continue;
        if (!is_map_over(statement, shared) || s != first.statements[0] || ++reductions > 1) return false;
      }
    return true;
  }

  int64_t work(const Group& group) const {
    int64_t points = 0;
    for (uint32_t s : group.statements) {
      const auto& statement = program_.statements[s];
      points +=
          statement.points(VarKind::parallel) * std::max<int64_t>(1, statement.points(VarKind::reduction));
    }
    return points;
  }

  int64_t local_bytes(const Group& first, const Group& second, uint32_t shared) const {
    int64_t bytes = 0;
    for (const auto* group : {&first, &second})
      for (uint32_t s : group->statements)
        for (BufferId b : deps_.writes[s]) {
          int64_t points = 1;
          const auto& vars = program_.statements[s].vars;
          for (uint32_t k = 0; k < shared; ++k) points *= std::max<int64_t>(1, vars[k].extent);
          bytes += program_.buffers[b].bytes() / points;
        }
    return bytes;
  }

  /// A chain of dependencies from one group to the other through a third. Statement numbers bound the search.
  bool path_around(const Group& first, const Group& second) const {
    uint32_t a = group_of_[first.statements[0]], b = group_of_[second.statements[0]];
    uint32_t last = 0;
    for (const auto* group : {&first, &second}) last = std::max(last, group->statements.back());
    for (auto [from, to] : {std::pair{a, b}, std::pair{b, a}}) {
      std::vector<uint32_t> stack;
      std::vector<uint32_t> seen;
      auto push = [&](uint32_t group) {
        if (std::find(seen.begin(), seen.end(), group) != seen.end()) return;
        seen.push_back(group);
        stack.push_back(group);
      };
      for (uint32_t s : groups_[from].statements)
        for (uint32_t next : deps_.after[s])
          if (group_of_[next] != from && group_of_[next] != to) push(group_of_[next]);
      while (!stack.empty()) {
        uint32_t group = stack.back();
        stack.pop_back();
        if (groups_[group].statements[0] > last) continue;
        for (uint32_t s : groups_[group].statements)
          for (uint32_t next : deps_.after[s]) {
            if (group_of_[next] == to) return true;
            if (group_of_[next] != group && group_of_[next] != from) push(group_of_[next]);
          }
      }
    }
    return false;
  }

  void join(uint32_t a, uint32_t b, uint32_t shared) {
    auto& first = groups_[a];
    auto& second = groups_[b];
    for (uint32_t s : second.statements) group_of_[s] = a;
    first.statements.insert(first.statements.end(), second.statements.begin(), second.statements.end());
    std::sort(first.statements.begin(), first.statements.end());
    first.shared = shared;
    second.statements.clear();
  }

  /// Groups in dependency order, the one with the earliest statement first.
  std::vector<Group> ordered() const {
    std::vector<size_t> waits(groups_.size(), 0);
    std::vector<std::set<uint32_t>> next(groups_.size());
    for (uint32_t s = 0; s < group_of_.size(); ++s)
      for (uint32_t after : deps_.after[s])
        if (group_of_[after] != group_of_[s] && next[group_of_[s]].insert(group_of_[after]).second)
          ++waits[group_of_[after]];
    std::priority_queue<uint32_t, std::vector<uint32_t>, std::greater<>> ready;
    for (uint32_t g = 0; g < groups_.size(); ++g)
      if (!groups_[g].statements.empty() && waits[g] == 0) ready.push(g);
    std::vector<Group> result;
    while (!ready.empty()) {
      uint32_t g = ready.top();
      ready.pop();
      result.push_back(groups_[g]);
      for (uint32_t n : next[g])
        if (--waits[n] == 0) ready.push(n);
    }
    return result;
  }

  const LoopProgram& program_;
  const FusionRequests& requests_;
  const FusionLimits& limits_;
  Ledger& ledger_;
  Dependencies deps_;
  std::vector<Group> groups_;
  std::vector<uint32_t> group_of_;
};

}  // namespace

uint32_t common_loops(const LoopProgram& program, uint32_t x, uint32_t y, uint32_t limit) {
  const auto& first = program.statements[std::min(x, y)];
  const auto& second = program.statements[std::max(x, y)];
  uint32_t shared = 0;
  while (shared < limit && shared < first.vars.size() && shared < second.vars.size() &&
         first.vars[shared].extent == second.vars[shared].extent &&
         first.vars[shared].kind == VarKind::parallel && second.vars[shared].kind == VarKind::parallel)
    ++shared;
  for (const auto& store : first.stores) {
    BufferId storage = program.storage(store.buffer);
    for (const auto& op : second.ops)
      if (op.code == FE_OP_LOAD && program.storage(op.buffer) == storage)
        shared = std::min(shared, aligned(program, first, store.index, second, op.index, shared));
    for (const auto& other : second.stores)
      if (program.storage(other.buffer) == storage) return 0;
  }
  // A later write to what an earlier statement reads: iterations must not overtake each other.
  for (const auto& store : second.stores) {
    BufferId storage = program.storage(store.buffer);
    for (const auto& op : first.ops)
      if (op.code == FE_OP_LOAD && program.storage(op.buffer) == storage)
        shared = std::min(shared, aligned(program, second, store.index, first, op.index, shared));
  }
  return shared;
}

Schedule fuse(LoopProgram program, const FusionRequests& requests, const FusionLimits& limits,
              Ledger& ledger) {
  auto groups = Fuser(program, requests, limits, ledger).run();
  Schedule schedule{std::move(program), std::move(groups)};
  number_by_group(schedule);
  return schedule;
}

}  // namespace ferrite::core::schedule
