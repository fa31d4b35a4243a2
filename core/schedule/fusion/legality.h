// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which statements may be one group. Fusion forms groups by this rule, and schedules from text and from
// plugins' passes are checked against it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "core/schedule/schedule.h"

namespace ferrite::core::schedule {

/// Whether the statement is always a kernel of its own: a scatter, a serial loop or an opaque call.
bool is_kernel_alone(const Statement& statement);

/// Whether the statement can be an epilogue of a contraction with this many parallel loops: a map over
/// exactly those.
bool is_epilogue(const Statement& statement, size_t loops);

/// Why statements cannot be one group.
struct Misfit {
  uint32_t statement = 0;  ///< the statement that does not fit
  std::string text;        ///< the reason, phrased about that statement
};

/// The reason why the statements cannot be a group that shares this many loops; none where they can. Without
/// shared loops the group has one iteration, in which maps and reductions run one after the other, each in
/// loops of its own. `statements`: in order of execution, at least one.
std::optional<Misfit> misfit(const LoopProgram& program, std::span<const uint32_t> statements,
                             uint32_t shared);

}  // namespace ferrite::core::schedule
