// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Convolution windows as operands: what neighbouring results read overlaps, so a task copies the part of the operand that it
// needs once, padding included, and the micro-kernel walks the windows inside that copy. An im2col would hold each element as
// often as the window has taps.
#pragma once

#include <optional>
#include <span>

#include "backends/llvm/cpu/gemm/statement_values.h"
#include "ferrite/loop.hpp"

namespace ferrite::emitter {

/// The windows that `operand` is read through, or nothing when its indices are not sums of a result's position and a tap's, or
/// taps are further apart than 1. `rows`: the variables of the results, the last two being lines and places; `depth`: the
/// variables that are summed over, put into the order in which the micro-kernel walks the copy; `channel`: of a channelwise
/// contraction, the variable that both operands have in common. `original` is the statement that `merged` begins with.
std::optional<Window> find_window(index::Pool& pool, const loop::Statement& original,
                                  const loop::Statement& merged, loop::OpId operand,
                                  std::span<const loop::Var> rows, std::vector<loop::Var>& depth,
                                  const loop::Var* channel);

}  // namespace ferrite::emitter
