// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <algorithm>
#include <optional>

#include "core/schedule/alignment.h"
#include "core/schedule/body.h"
#include "core/schedule/schedule.h"
#include "ferrite/loop_check.hpp"

namespace ferrite::core::schedule {
namespace {

/// The value of `load` in a body that already has the operations of `writer`, where it loads one of the
/// writer's results; else nothing.
std::optional<OpId> stored_value(const LoopProgram& program, BodyWriter& body, const Statement& writer,
                                 const BodyOp& load) {
  for (const auto& store : writer.stores)
    if (program.storage(store.buffer) == program.storage(load.buffer))
      return load.a == none ? store.value : body.prim(Prim::where_, load.dtype, load.a, store.value, load.b);
  return std::nullopt;
}

/// Turn this: %0 = load @a[i]; store @b[i] = f(%0)
/// followed by: %0 = load @b[i]; store @c[i] = g(%0)
/// into this: %0 = load @a[i]; %1 = f(%0); store @b[i] = %1; store @c[i] = g(%1)
void append(LoopProgram& program, ProgramStatement& into, const ProgramStatement& map) {
  Substitution same_loops;
  for (size_t k = 0; k < map.vars.size(); ++k)
    same_loops.emplace_back(map.vars[k].symbol, program.pool.symbol(into.vars[k].symbol));
  BodyWriter body(program.pool);
  auto old = body.splice(into.ops, {}, none, nullptr);
  renumber(into, old);
  auto numbers = body.splice(map.ops, same_loops, none,
                             [&](const BodyOp& load) { return stored_value(program, body, into, load); });
  for (auto store : map.stores) {
    for (auto& expr : store.index) expr = program.pool.substitute(expr, same_loops);
    store.value = numbers[store.value];
    if (store.mask != none) store.mask = numbers[store.mask];
    into.stores.push_back(std::move(store));
  }
  into.ops = std::move(body.ops);
  for (const auto& origin : map.origins)
    if (std::find(into.origins.begin(), into.origins.end(), origin) == into.origins.end())
      into.origins.push_back(origin);
}

/// Turn this: %0 = load @a[i, j]; store @b[i, j] = f(%0)
/// followed by: %0 = load @b[i, j]; %1 = reduced 0; store @c[i] = %1
/// into this: %0 = load @a[i, j]; %1 = f(%0); %2 = reduced 0; store @b[i, j] = %1; store @c[i] = %2
void prepend(LoopProgram& program, ProgramStatement& reduce, ProgramStatement map) {
  Substitution same_loops;
  for (size_t k = 0; k < map.vars.size(); ++k)
    same_loops.emplace_back(map.vars[k].symbol, program.pool.symbol(reduce.vars[k].symbol));
  BodyWriter body(program.pool);
  const auto front = body.splice(map.ops, same_loops, none, nullptr);
  for (auto& store : map.stores) {
    for (auto& expr : store.index) expr = program.pool.substitute(expr, same_loops);
    store.value = front[store.value];
    if (store.mask != none) store.mask = front[store.mask];
  }
  const auto numbers = body.splice(
      reduce.ops, {}, none, [&](const BodyOp& load) { return stored_value(program, body, map, load); });
  renumber(reduce, numbers);
  reduce.ops = std::move(body.ops);
  reduce.stores.insert(reduce.stores.begin(), map.stores.begin(), map.stores.end());
  std::vector<Origin> origins = std::move(map.origins);
  for (auto& origin : reduce.origins)
    if (std::find(origins.begin(), origins.end(), origin) == origins.end())
      origins.push_back(std::move(origin));
  reduce.origins = std::move(origins);
}

/// Whether `reader` loads the results of `writer` at the points at which they were stored, with respect to
/// the first `count` variables.
bool reads_same_points(const LoopProgram& program, const ProgramStatement& writer,
                       const ProgramStatement& reader, size_t count) {
  for (const auto& store : writer.stores)
    for (const auto& op : reader.ops) {
      if (op.code != FE_OP_LOAD || program.storage(op.buffer) != program.storage(store.buffer)) continue;
      if (op.buffer != store.buffer || store.mode != FE_STORE_SET || store.mask != none) return false;
      for (size_t d = 0; d < op.index.size(); ++d)
        if (!same_place(program, writer, store.index[d], reader, op.index[d], count)) return false;
    }
  return true;
}

/// Whether `later` overwrites elements that `earlier` loads only at the very points of these loads, as one
/// body requires.
bool overwrites_same_points(const LoopProgram& program, const ProgramStatement& earlier,
                            const ProgramStatement& later, size_t count) {
  for (const auto& store : later.stores)
    for (const auto& op : earlier.ops) {
      if (op.code != FE_OP_LOAD || program.storage(op.buffer) != program.storage(store.buffer)) continue;
      for (size_t d = 0; d < op.index.size(); ++d)
        if (!same_place(program, later, store.index[d], earlier, op.index[d], count)) return false;
    }
  return true;
}

/// Whether `map` runs over the parallel loops of `into`, and reads and overwrites the buffers of `into` at
/// the same points only.
bool fits(const LoopProgram& program, const ProgramStatement& into, const ProgramStatement& map) {
  if (map.kind != FE_STATEMENT_MAP || into.stores.empty()) return false;
  if (into.kind != FE_STATEMENT_MAP && into.kind != FE_STATEMENT_REDUCE && into.kind != FE_STATEMENT_CONTRACT)
    return false;
  if (into.parallel_count() != map.vars.size()) return false;
  for (size_t k = 0; k < map.vars.size(); ++k)
    if (into.vars[k].extent != map.vars[k].extent) return false;
  return reads_same_points(program, into, map, map.vars.size()) &&
         overwrites_same_points(program, into, map, map.vars.size());
}

bool depends(const LoopProgram& program, const ProgramStatement& later, const ProgramStatement& earlier) {
  auto reads = [&](const ProgramStatement& s, BufferId storage) {
    return std::any_of(s.ops.begin(), s.ops.end(), [&](const BodyOp& op) {
      return op.code == FE_OP_LOAD && program.storage(op.buffer) == storage;
    });
  };
  for (const auto& store : earlier.stores)
    if (reads(later, program.storage(store.buffer))) return true;
  for (const auto& store : later.stores) {
    if (reads(earlier, program.storage(store.buffer))) return true;
    for (const auto& other : earlier.stores)
      if (program.storage(other.buffer) == program.storage(store.buffer)) return true;
  }
  return false;
}

/// Whether the statement's reduced values are unused while another of its stores is still used.
bool has_lost_reductions(const ProgramStatement& statement) {
  return (statement.kind == FE_STATEMENT_REDUCE || statement.kind == FE_STATEMENT_CONTRACT) &&
         statement.reductions.empty();
}

/// Turn this: store @a[i, r] = %0; store @b[i] = %1 over i and reduce r, with no reduction left
/// into this: store @a[i, r] = %0 over i and r, followed by store @b[i] = %1 over i.
/// Where all stores are of one kind, `statement` becomes that map and nothing is returned; else the second
/// map is returned.
std::optional<ProgramStatement> become_map(const index::Pool& pool, ProgramStatement& statement) {
  const auto where = ferrite::loop::place(pool, statement);
  auto finish = statement;
  finish.stores.clear();
  std::vector<Store> elements;
  for (size_t k = 0; k < statement.stores.size(); ++k)
    (where.every_point[k] ? elements : finish.stores).push_back(statement.stores[k]);
  statement.kind = finish.kind = FE_STATEMENT_MAP;
  std::erase_if(finish.vars, [](const Var& var) { return var.kind == VarKind::reduction; });
  remove_dead(pool, finish);
  if (elements.empty()) {
    statement = std::move(finish);
    return std::nullopt;
  }
  statement.stores = std::move(elements);
  for (auto& var : statement.vars) var.kind = VarKind::parallel;
  remove_dead(pool, statement);
  if (finish.stores.empty()) return std::nullopt;
  return finish;
}

/// Joins each reduction of a group with the earliest one before it that reads the same buffer, where no
/// statement between them has to run first.
void join_members(LoopProgram& program, std::vector<uint32_t>& members) {
  for (size_t j = 1; j < members.size(); ++j) {
    const auto& other = program.statements[members[j]];
    std::optional<size_t> found;
    for (size_t i = j; i-- > 0;) {
      const auto& into = program.statements[members[i]];
      if (reduces_beside(program, into, other)) found = i;
      if (depends(program, other, into)) break;
    }
    if (!found) continue;
    join_reductions(program, program.statements[members[*found]], other);
    members.erase(members.begin() + static_cast<ptrdiff_t>(j--));
  }
}

/// One round of drop_unread(). Returns whether a statement was removed; its loads may have been the last ones
/// of another store.
bool drop_once(Schedule& schedule) {
  auto& program = schedule.program;
  std::vector<size_t> loads(program.buffers.size(), 0);
  for (const auto& group : schedule.groups)
    for (uint32_t s : group.statements) {
      for (const auto& op : program.statements[s].ops)
        if (op.code == FE_OP_LOAD) ++loads[program.storage(op.buffer)];
      for (BufferId b : program.statements[s].call.reads) ++loads[program.storage(b)];
    }
  for (BufferId b : program.outputs) ++loads[program.storage(b)];
  for (BufferId b : program.inputs) ++loads[b];  // the caller may read stores into inputs
  bool dropped = false;
  for (auto& group : schedule.groups) {
    std::vector<uint32_t> kept;
    for (const uint32_t s : group.statements) {
      auto& statement = program.statements[s];
      if (statement.kind != FE_STATEMENT_CALL) {
        std::erase_if(statement.stores,
                      [&](const Store& store) { return loads[program.storage(store.buffer)] == 0; });
        remove_dead(program.pool, statement);
        if (statement.stores.empty()) {
          dropped = true;
          continue;
        }
      }
      kept.push_back(s);
      // A reduction without reduced values is only a map.
      if (!has_lost_reductions(statement)) continue;
      if (auto finish = become_map(program.pool, statement)) {
        kept.push_back(static_cast<uint32_t>(program.statements.size()));
        program.statements.push_back(std::move(*finish));
      }
    }
    group.statements = std::move(kept);
  }
  std::erase_if(schedule.groups, [](const Group& group) { return group.statements.empty(); });
  return dropped;
}

}  // namespace

bool is_prologue(const LoopProgram& program, const ProgramStatement& map, const ProgramStatement& reduce) {
  return map.kind == FE_STATEMENT_MAP && reduce.kind == FE_STATEMENT_REDUCE && !map.stores.empty() &&
         std::ranges::equal(map.vars, reduce.vars, {}, &Var::extent, &Var::extent) &&
         reads_same_points(program, map, reduce, map.vars.size()) &&
         overwrites_same_points(program, map, reduce, reduce.parallel_count());
}

bool same_loops(const Statement& x, const Statement& y) {
  return std::ranges::equal(
      x.vars, y.vars, [](const Var& a, const Var& b) { return a.extent == b.extent && a.kind == b.kind; });
}

bool reduces_beside(const LoopProgram& program, const ProgramStatement& into, const ProgramStatement& other) {
  if (into.kind != FE_STATEMENT_REDUCE || other.kind != FE_STATEMENT_REDUCE || !same_loops(into, other) ||
      into.reductions.size() + other.reductions.size() > most_reductions || depends(program, other, into))
    return false;
  return std::ranges::any_of(into.ops, [&](const BodyOp& x) {
    return x.code == FE_OP_LOAD && std::ranges::any_of(other.ops, [&](const BodyOp& y) {
             return y.code == FE_OP_LOAD && program.storage(x.buffer) == program.storage(y.buffer);
           });
  });
}

/// Turn this: reduction 0 = sum %a   and   reduction 0 = max %b, over the same loops
/// into this: reduction 0 = sum %a; reduction 1 = max %b, in one statement
void join_reductions(LoopProgram& program, ProgramStatement& into, ProgramStatement other) {
  Substitution loops;
  for (size_t k = 0; k < other.vars.size(); ++k)
    loops.emplace_back(other.vars[k].symbol, program.pool.symbol(into.vars[k].symbol));
  for (auto& op : other.ops)
    if (op.code == FE_OP_REDUCED) op.bits += into.reductions.size();
  BodyWriter body(program.pool);
  renumber(into, body.splice(into.ops, {}, none, nullptr));
  renumber(other, body.splice(other.ops, loops, none, nullptr));
  into.ops = std::move(body.ops);
  into.reductions.insert(into.reductions.end(), other.reductions.begin(), other.reductions.end());
  for (auto& store : other.stores) {
    for (auto& expr : store.index) expr = program.pool.substitute(expr, loops);
    into.stores.push_back(std::move(store));
  }
  for (auto& origin : other.origins)
    if (std::ranges::find(into.origins, origin) == into.origins.end())
      into.origins.push_back(std::move(origin));
}

void drop_unread(Schedule& schedule) {
  while (drop_once(schedule)) {
  }
  number_by_group(schedule);
}

void merge_statements(Schedule& schedule, const std::vector<bool>& apart) {
  auto& program = schedule.program;
  for (size_t g = 0; g < schedule.groups.size(); ++g) {
    if (g < apart.size() && apart[g]) continue;
    auto& members = schedule.groups[g].statements;
    join_members(program, members);
    for (size_t j = 1; j < members.size(); ++j) {
      const auto& map = program.statements[members[j]];
      // The latest statement that the map depends on, or the first one that it fits into when it depends on
      // none.
      for (size_t i = j; i-- > 0;) {
        auto& into = program.statements[members[i]];
        if (fits(program, into, map)) {
          append(program, into, map);
          members.erase(members.begin() + static_cast<ptrdiff_t>(j--));
          break;
        }
        if (depends(program, map, into)) break;
      }
    }
    // A map before a reduction over the same loops, where no statement between them depends on the map.
    for (size_t j = members.size(); j-- > 0;) {
      const auto& map = program.statements[members[j]];
      for (size_t i = j + 1; i < members.size(); ++i) {
        auto& reduce = program.statements[members[i]];
        if (is_prologue(program, map, reduce)) {
          prepend(program, reduce, map);
          members.erase(members.begin() + static_cast<ptrdiff_t>(j));
          break;
        }
        if (depends(program, reduce, map)) break;
      }
    }
  }

  drop_unread(schedule);
}

void number_by_group(Schedule& schedule) {
  std::vector<ProgramStatement> kept;
  for (auto& group : schedule.groups)
    for (auto& s : group.statements) {
      kept.push_back(std::move(schedule.program.statements[s]));
      s = static_cast<uint32_t>(kept.size() - 1);
    }
  schedule.program.statements = std::move(kept);
}

}  // namespace ferrite::core::schedule
