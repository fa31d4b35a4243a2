// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which statements may be one group: the rule that fusion makes groups by, and that texts and the passes of plugins are held to.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "core/schedule/schedule.h"

namespace ferrite::core::schedule {

/// Whether the statement is always a kernel of its own: a scatter, a serial loop or an opaque call.
bool is_kernel_alone(const Statement& statement);

/// Whether the statement may follow a contraction that has so many parallel loops: a map over exactly those.
bool is_epilogue(const Statement& statement, size_t loops);

/// What keeps statements from being one group.
struct Misfit {
  uint32_t statement = 0;  ///< that does not fit
  std::string text;        ///< why, about that statement
};

/// Why the statements cannot be a group that shares so many loops; none where they can. Where they share none there is one
/// iteration, in which maps and reductions run one after the other, each in loops of its own. `statements`: in order of
/// execution, at least one.
std::optional<Misfit> misfit(const LoopProgram& program, std::span<const uint32_t> statements,
                             uint32_t shared);

}  // namespace ferrite::core::schedule
