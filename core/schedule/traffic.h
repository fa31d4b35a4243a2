// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The cost of statements: the bytes that a group moves through memory, which loop reordering and horizontal
// fusion must reduce, and the time of a worker.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "core/schedule/schedule.h"

namespace ferrite::core::schedule {

/// The distance in elements between two values of a variable, for an access; none where it is not constant.
std::optional<int64_t> step_of(const LoopProgram& program, BufferId buffer,
                               std::span<const index::Expr> index, index::Symbol symbol);

/// The bytes that a group moves: those that it writes, and each storage that it reads and does not write,
/// once. Bytes that the innermost loop does not walk contiguously count `uncoalesced` times, as TargetNumbers
/// says. The innermost loop is the cheapest one: for each statement, of the loops that the group does not
/// share, or of all loops where the statements are one loop nest (`one_nest`), because code generators are
/// free to choose it. A map alone is walked in squares of two loops where that costs less, each access along
/// its own loop. The idea is TorchInductor's (pull request 126254).
int64_t traffic(const LoopProgram& program, std::span<const uint32_t> statements, uint32_t shared,
                bool one_nest, int64_t uncoalesced);

/// The time that one worker takes for all points of a statement, in elements that it could read meanwhile.
int64_t work_of(const Statement& statement, const TargetNumbers& target);

}  // namespace ferrite::core::schedule
