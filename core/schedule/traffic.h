// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What statements cost: what a group moves through memory, which reordering loops and fusing side by side have to lower, and how long
// a worker is busy.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "core/schedule/schedule.h"

namespace ferrite::core::schedule {

/// Elements from one value of a variable to the next, of an access; none where that differs from place to place.
std::optional<int64_t> step_of(const LoopProgram& program, BufferId buffer,
                               std::span<const index::Expr> index, index::Symbol symbol);

/// Bytes that a group moves: what it writes, and each storage that it reads and does not write, once. They count `uncoalesced`
/// times, as TargetNumbers has it, where the innermost loop does not walk them; that loop is the cheapest of those that the group does not share, for
/// each statement, or of all where the statements are one loop nest (`one_nest`), as code generators are free to choose it.
/// The idea is TorchInductor's (pull request 126254).
int64_t traffic(const LoopProgram& program, std::span<const uint32_t> statements, uint32_t shared,
                bool one_nest, int64_t uncoalesced);

/// How long one worker takes for all points of a statement, in elements that it would read meanwhile.
int64_t work_of(const Statement& statement, const TargetNumbers& target);

}  // namespace ferrite::core::schedule
