// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/schedule/alignment.h"

#include <algorithm>

#include "core/schedule/cut_loops.h"

namespace ferrite::core::schedule {
namespace {

size_t position(const Statement& statement, index::Symbol symbol) {
  return static_cast<size_t>(std::ranges::find(statement.vars, symbol, &Var::symbol) -
                             statement.vars.begin());
}

/// Whether two sums add the same loops with the same factors. A loop is identified by its position in its
/// statement.
bool same_loops(const Statement& first, const index::Affine& a, const Statement& second,
                const index::Affine& b) {
  return a.rest.empty() && b.rest.empty() && a.terms.size() == b.terms.size() &&
         std::ranges::all_of(a.terms, [&](const auto& term) {
           return std::ranges::any_of(b.terms, [&](const auto& other) {
             return term.second == other.second &&
                    position(first, term.first) == position(second, other.first);
           });
         });
}

/// Whether both statements address a dim by the same sum of several loops that gives each point an element of
/// its own.
bool same_count(const LoopProgram& program, const Statement& first, index::Expr x, const Statement& second,
                index::Expr y) {
  if (program.pool.as_symbol(x) || !counts_through(program, first, x)) return false;
  const auto a = program.pool.affine(x), b = program.pool.affine(y);
  return b.constant == 0 && same_loops(first, a, second, b) &&
         std::ranges::all_of(a.terms, [&](const auto& term) {
           const auto place = position(first, term.first);
           return place < second.vars.size() && first.vars[place].extent == second.vars[place].extent;
         });
}

}  // namespace

bool same_place(const LoopProgram& program, const Statement& first, index::Expr x, const Statement& second,
                index::Expr y, size_t count) {
  const auto a = program.pool.affine(x), b = program.pool.affine(y);
  return a.constant == b.constant && same_loops(first, a, second, b) &&
         std::ranges::all_of(a.terms, [&](const auto& term) { return position(first, term.first) < count; });
}

std::span<const index::Expr> address(const LoopProgram& program, const Statement& statement,
                                     BufferId storage) {
  for (const auto& store : statement.stores)
    if (program.storage(store.buffer) == storage) return store.index;
  for (const auto& op : statement.ops)
    if (op.code == FE_OP_LOAD && program.storage(op.buffer) == storage) return op.index;
  return {};
}

uint32_t aligned(const LoopProgram& program, const Statement& writer, std::span<const index::Expr> stored,
                 const Statement& reader, std::span<const index::Expr> loaded, uint32_t limit) {
  uint32_t shared = 0;
  for (; shared < limit; ++shared) {
    bool found = false;
    for (size_t d = 0; d < stored.size() && d < loaded.size() && !found; ++d)
      found = (program.pool.as_symbol(stored[d]) == writer.vars[shared].symbol &&
               program.pool.as_symbol(loaded[d]) == reader.vars[shared].symbol) ||
              (program.pool.depends_on(stored[d], writer.vars[shared].symbol) &&
               same_count(program, writer, stored[d], reader, loaded[d]));
    if (!found) break;
  }
  return shared;
}

std::vector<Var> order_like(const LoopProgram& program, const Statement& map,
                            std::span<const index::Expr> mine, const Statement& other,
                            std::span<const index::Expr> its) {
  std::vector<Var> result;
  const auto taken = [&](const Var& var) {
    return std::ranges::any_of(result, [&](const Var& earlier) { return earlier.symbol == var.symbol; });
  };
  for (const auto& var : other.vars) {
    const Var* match = nullptr;
    for (size_t d = 0; d < its.size() && d < mine.size() && !match; ++d) {
      if (program.pool.as_symbol(its[d]) != var.symbol) continue;
      const auto symbol = program.pool.as_symbol(mine[d]);
      for (const auto& own : map.vars)
        if (symbol == own.symbol && own.extent == var.extent && !taken(own)) match = &own;
    }
    // The order ends at the first loop that has no counterpart: loops after it would not be leading ones.
    if (!match) break;
    result.push_back(*match);
  }
  for (const auto& var : map.vars)
    if (!taken(var)) result.push_back(var);
  return result;
}

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
    // Two statements that store to one buffer never share loops: the order of their stores has to stay.
    for (const auto& other : second.stores)
      if (program.storage(other.buffer) == storage) return 0;
  }
  // A later write to a buffer that the earlier statement reads: iterations must not overtake each other.
  for (const auto& store : second.stores) {
    BufferId storage = program.storage(store.buffer);
    for (const auto& op : first.ops)
      if (op.code == FE_OP_LOAD && program.storage(op.buffer) == storage)
        shared = std::min(shared, aligned(program, second, store.index, first, op.index, shared));
  }
  return shared;
}

}  // namespace ferrite::core::schedule
