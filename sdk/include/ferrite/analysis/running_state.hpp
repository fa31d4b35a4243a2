// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Serial loops that any number of workers can share: what is carried from step to step is combined with a value of each step's own by an
// associative operation, as in a running sum. The question is the host's, which divides such loops, and a code generator's.
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
  OpId value = none;  ///< depends on nothing that is carried
};

/// For each operation, whether it depends on what is carried.
inline std::vector<bool> carried_part(const index::Pool& pool, const Statement& statement) {
  std::vector<bool> depends(statement.ops.size());
  std::vector<index::Symbol> bound;  // indices that do
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

/// By carry; nothing where the statement is not one serial loop of at least one carry, where a carry is none such, or where a store
/// accumulates.
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
