// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Recognises serial loops that can be divided among workers: each step combines the carried state with a
// value of its own by an associative operation, as in a running sum. Used by the host, which divides such
// loops, and by code generators.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "ferrite/loop.hpp"

namespace ferrite::inline v0::loop {

/// state of the next step = combine(state, value).
struct RunningState {
  Prim combine = Prim::add_;
  OpId value = none;  ///< does not depend on carried states
};

/// For each operation, whether it depends on a carried state.
inline std::vector<bool> carried_part(const index::Pool& pool, const Statement& statement) {
  std::vector<bool> depends(statement.ops.size());
  std::vector<index::Symbol> bound;  // index symbols that depend on a carried state
  for (size_t k = 0; k < statement.ops.size(); ++k) {
    const auto& op = statement.ops[k];
    bool does = op.code == FE_OP_CARRIED;
    for (const auto operand : {op.a, op.b, op.c}) does = does || (operand != none && depends[operand]);
    for (const auto expr : op.index)
      for (const auto symbol : bound) does = does || pool.depends_on(expr, symbol);
    if (does && op.code == FE_OP_INDIRECT) bound.push_back(op.symbol);
    depends[k] = does;
  }
  return depends;
}

/// One entry per carry. None if the statement is not a single serial loop with at least one carry, if a carry
/// has another form, or if a store accumulates.
inline std::optional<std::vector<RunningState>> running_states(const index::Pool& pool,
                                                               const Statement& statement) {
  const size_t parallel = statement.parallel_count();
  if (statement.vars.size() != parallel + 1 || !statement.has(VarKind::serial) || statement.carries.empty())
    return std::nullopt;
  if (std::ranges::any_of(statement.stores, [](const Store& store) { return store.mode != FE_STORE_SET; }))
    return std::nullopt;
  const auto is_associative = [](Prim prim) {
    constexpr Prim prims[] = {Prim::add_, Prim::mul_, Prim::min_, Prim::max_,
                              Prim::and_, Prim::or_,  Prim::xor_};
    return std::ranges::find(prims, prim) != std::ranges::end(prims);
  };
  const auto depends = carried_part(pool, statement);
  std::vector<RunningState> states;
  for (size_t k = 0; k < statement.carries.size(); ++k) {
    const auto& carry = statement.carries[k];
    const auto& next = statement.ops[carry.next];
    if (!next.is_prim() || !is_associative(next.prim()) || next.dtype != carry.dtype) return std::nullopt;
    const auto is_carried = [&](OpId op) {
      return statement.ops[op].code == FE_OP_CARRIED && statement.ops[op].bits == k;
    };
    const auto value = is_carried(next.a) ? next.b : is_carried(next.b) ? next.a : none;
    if (value == none || depends[value]) return std::nullopt;
    states.push_back({next.prim(), value});
  }
  return states;
}

}  // namespace ferrite::inline v0::loop
