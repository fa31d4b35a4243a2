// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How the access patterns of two statements to a common buffer relate.
#pragma once

#include <span>
#include <vector>

#include "core/schedule/schedule.h"

namespace ferrite::core::schedule {

/// The index with which `statement` addresses a storage: that of its first store to it, else that of its
/// first load. Empty where the statement does not access the storage.
std::span<const index::Expr> address(const LoopProgram& program, const Statement& statement,
                                     BufferId storage);

/// Whether two coordinates are the same sum of loops, all of them among the first `count` loops of their
/// statements and each at the same position in both.
bool same_place(const LoopProgram& program, const Statement& first, index::Expr x, const Statement& second,
                index::Expr y, size_t count);

/// The number of leading loops that address the same dim of the buffer that `writer` stores and `reader`
/// loads, at most `limit`.
uint32_t aligned(const LoopProgram& program, const Statement& writer, std::span<const index::Expr> stored,
                 const Statement& reader, std::span<const index::Expr> loaded, uint32_t limit);

/// The variables of `map`, ordered so that it walks a common buffer as `other` does: first those that address
/// the same dims as the leading variables of `other`, then the rest. `mine` and `its` are the indices with
/// which the two address that buffer.
std::vector<Var> order_like(const LoopProgram& program, const Statement& map,
                            std::span<const index::Expr> mine, const Statement& other,
                            std::span<const index::Expr> its);

}  // namespace ferrite::core::schedule
