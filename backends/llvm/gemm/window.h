// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Convolution windows as operands. Neighbouring results read overlapping windows, so a task copies the part
// of the operand that it needs once, padding included, and the micro-kernel reads the windows from that copy.
// An im2col matrix would instead hold each element once per tap.
#pragma once

#include <optional>
#include <span>

#include "backends/llvm/gemm/plan.h"
#include "ferrite/loop.hpp"

namespace ferrite::emitter {

/// Returns the windows through which `operand` is read, or nullopt if its indices are not sums of a result's
/// position and a tap's position, or if taps are more than 1 apart. `rows`: the variables of the results; the
/// last two are lines and places. `depth`: the reduction variables, reordered to the order in which the
/// micro-kernel traverses the copy. `channel`: the variable common to both operands of a channelwise
/// contraction. `original` is the statement that `merged` begins with.
std::optional<Window> find_window(index::Pool& pool, const loop::Statement& original,
                                  const loop::Statement& merged, loop::OpId operand,
                                  std::span<const loop::Var> rows, std::vector<loop::Var>& depth,
                                  const loop::Var* channel);

/// Whether an operand of this type is computed, and a single line of its copy leaves no room for weights in
/// the second-level cache, as those of long sequences do. It takes less time then to compute blocks of rows,
/// with each position once per tap (f32[64, 512, 256], 5 taps, 512 columns, two workers: 134 and 160 ms).
bool exceeds_cache(const Window& window, DType dtype, const Target& target);

}  // namespace ferrite::emitter
