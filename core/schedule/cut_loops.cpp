// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/schedule/cut_loops.h"

#include <algorithm>
#include <map>
#include <set>
#include <vector>

namespace ferrite::core::schedule {
namespace {

/// The parallel loops whose sum is the index of a dim, the slowest first. Empty where the index is not such a
/// sum.
std::vector<Var> counted(const LoopProgram& program, const Statement& statement, index::Expr dim) {
  const auto affine = program.pool.affine(dim);
  if (!affine.rest.empty() || affine.constant != 0 || affine.terms.empty()) return {};
  auto terms = affine.terms;
  std::ranges::sort(terms, std::ranges::greater(), [](const auto& term) { return term.second; });
  std::vector<Var> loops;
  for (const auto& [symbol, coefficient] : terms) {
    const auto var = std::ranges::find(statement.vars, symbol, &Var::symbol);
    if (var == statement.vars.end() || var->kind != VarKind::parallel) return {};
    loops.push_back(*var);
  }
  int64_t step = 1;
  // The factors have to be those of a mixed-radix count: each loop counts whole ranges of the ones after it.
  for (size_t k = loops.size(); k-- > 0; step *= loops[k].extent)
    if (terms[k].second != step) return {};
  return loops;
}

/// Replaces the variable by `loops`; its extent is the product of theirs.
void cut(LoopProgram& program, Statement& statement, index::Symbol symbol, const std::vector<Var>& loops) {
  const auto var = std::ranges::find(statement.vars, symbol, &Var::symbol);
  std::vector<Var> own;
  auto place = program.pool.constant(0);
  for (const auto& loop : loops) {
    const auto fresh = program.pool.new_symbol({0, loop.extent - 1});
    own.push_back({fresh, loop.extent, var->kind});
    place = program.pool.add(program.pool.mul(place, loop.extent), program.pool.symbol(fresh));
  }
  const auto at = statement.vars.erase(var);
  statement.vars.insert(at, own.begin(), own.end());
  const std::pair<index::Symbol, index::Expr> replaced{symbol, place};
  for (auto& op : statement.ops)
    for (auto& expr : op.index) expr = program.pool.substitute(expr, {&replaced, 1});
  for (auto& store : statement.stores)
    for (auto& expr : store.index) expr = program.pool.substitute(expr, {&replaced, 1});
}

/// Splits the loop of the map that runs over a dim which `writer` stores, as `stored` says, from several
/// loops.
bool follow(LoopProgram& program, const Statement& writer, const Store& stored, Statement& map) {
  bool changed = false;
  for (size_t d = 0; d < stored.index.size(); ++d) {
    const auto loops = counted(program, writer, stored.index[d]);
    if (loops.size() < 2) continue;
    for (size_t k = 0; k < map.ops.size(); ++k) {
      const auto& load = map.ops[k];
      if (load.code != FE_OP_LOAD || program.storage(load.buffer) != program.storage(stored.buffer) ||
          load.index.size() != stored.index.size())
        continue;
      const auto symbol = program.pool.as_symbol(load.index[d]);
      const auto var = std::ranges::find_if(map.vars, [&](const Var& each) { return each.symbol == symbol; });
      int64_t extent = 1;
      for (const auto& loop : loops) extent *= loop.extent;
      if (!symbol || var == map.vars.end() || var->extent != extent) continue;
      cut(program, map, *symbol, loops);
      changed = true;
    }
  }
  return changed;
}

/// Splits the loop of the map that a reshape cut into the dims in which a reduction stores: the map reads
/// [i div n, i mod n].
bool follow_reshape(LoopProgram& program, const Store& stored, Statement& map) {
  auto& pool = program.pool;
  const auto& dims = program.buffers[stored.buffer].dims;
  for (const auto& load : map.ops) {
    if (load.code != FE_OP_LOAD || program.storage(load.buffer) != program.storage(stored.buffer) ||
        load.index.size() != dims.size())
      continue;
    for (const auto& var : map.vars)
      for (size_t d = 0; d + 1 < dims.size(); ++d) {
        const auto number = pool.symbol(var.symbol);
        if (var.extent != dims[d] * dims[d + 1] || dims[d] == 1 || dims[d + 1] == 1 ||
            load.index[d] != pool.floordiv(number, dims[d + 1]) ||
            load.index[d + 1] != pool.mod(number, dims[d + 1]))
          continue;
        cut(program, map, var.symbol, {{0, dims[d], VarKind::parallel}, {0, dims[d + 1], VarKind::parallel}});
        return true;
      }
  }
  return false;
}

/// Splits the loops of a reduction that a reshape of its operand has joined: it reads [i div n, i mod n], and
/// i in no other way than by the same n.
bool follow_own_reshape(LoopProgram& program, Statement& reduction) {
  auto& pool = program.pool;
  const auto vars = reduction.vars;  // cut() replaces them
  bool changed = false;
  for (const auto& var : vars) {
    int64_t inner = 0;
    bool is_even = true;
    for (const auto& op : reduction.ops)
      for (const auto expr : pool.post_order(op.index)) {
        const auto code = pool.op(expr);
        if ((code != index::Op::floordiv && code != index::Op::mod) || !pool.depends_on(expr, var.symbol))
          continue;
        const auto number = pool.symbol(var.symbol);
        const auto by = pool.as_constant(pool.rhs(expr));
        is_even = is_even && by && (inner == 0 || *by == inner) &&
                  (expr == pool.floordiv(number, *by) || expr == pool.mod(number, *by));
        if (by) inner = *by;
      }
    if (!is_even || inner <= 1 || inner >= var.extent || var.extent % inner != 0) continue;
    cut(program, reduction, var.symbol, {{0, var.extent / inner, var.kind}, {0, inner, var.kind}});
    changed = true;
  }
  return changed;
}

}  // namespace

bool counts_through(const LoopProgram& program, const Statement& statement, index::Expr dim) {
  return !counted(program, statement, dim).empty();
}

void cut_loops(LoopProgram& program) {
  // By storage: contractions, and maps and reductions that were split, that store a dim from several loops;
  // and reductions. A statement looks at the writers of what it reads alone, so that the time is linear.
  std::map<BufferId, std::vector<uint32_t>> writers, reductions;
  const auto add = [&](std::map<BufferId, std::vector<uint32_t>>& to, uint32_t s) {
    for (const auto& store : program.statements[s].stores) to[program.storage(store.buffer)].push_back(s);
  };
  const auto of_loads = [&](const std::map<BufferId, std::vector<uint32_t>>& from,
                            const Statement& statement) {
    std::set<uint32_t> found;
    for (const auto& op : statement.ops)
      if (op.code == FE_OP_LOAD)
        if (const auto known = from.find(program.storage(op.buffer)); known != from.end())
          found.insert(known->second.begin(), known->second.end());
    return found;
  };
  for (uint32_t s = 0; s < program.statements.size(); ++s) {
    auto& statement = program.statements[s];
    if (statement.kind == FE_STATEMENT_CONTRACT) {
      const auto counts = [&](index::Expr dim) { return counted(program, statement, dim).size() > 1; };
      if (std::ranges::any_of(statement.stores,
                              [&](const Store& store) { return std::ranges::any_of(store.index, counts); }))
        add(writers, s);
      continue;
    }
    if (statement.kind == FE_STATEMENT_REDUCE) {
      if (follow_own_reshape(program, statement)) add(writers, s);
      add(reductions, s);
    }
    if (statement.kind != FE_STATEMENT_MAP || statement.vars.size() != statement.parallel_count()) continue;
    bool cuts = false;
    for (const uint32_t writer : of_loads(writers, statement))
      for (const auto& store : program.statements[writer].stores)
        cuts |= follow(program, program.statements[writer], store, statement);
    for (const uint32_t reduction : of_loads(reductions, statement))
      for (const auto& store : program.statements[reduction].stores)
        cuts |= follow_reshape(program, store, statement);
    // Maps that read this one are split in the same way.
    if (cuts) add(writers, s);
  }
}

}  // namespace ferrite::core::schedule
