// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How two statements walk a buffer that both touch.
#pragma once

#include <span>
#include <vector>

#include "core/schedule/schedule.h"

namespace ferrite::core::schedule {

/// How `statement` addresses a storage: where it writes it, or else where it reads it first; empty where it does neither.
std::span<const index::Expr> address(const LoopProgram& program, const Statement& statement,
                                     BufferId storage);

/// Whether two coordinates are the same sum of the first `count` loops, each standing at the same place in both statements.
bool same_place(const LoopProgram& program, const Statement& first, index::Expr x, const Statement& second,
                index::Expr y, size_t count);

/// How many leading loops agree on a dim of the buffer that `writer` stores and `reader` loads, at most `limit`.
uint32_t aligned(const LoopProgram& program, const Statement& writer, std::span<const index::Expr> stored,
                 const Statement& reader, std::span<const index::Expr> loaded, uint32_t limit);

/// The variables of `map` in the order in which it walks a buffer as `other` does: those that stand in the same dim as the
/// leading variables of `other`, then the rest. `mine` and `its` are how the two address that buffer.
std::vector<Var> order_like(const LoopProgram& program, const Statement& map,
                            std::span<const index::Expr> mine, const Statement& other,
                            std::span<const index::Expr> its);

}  // namespace ferrite::core::schedule
