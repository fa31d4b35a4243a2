// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One group of a schedule as a program of its own, which can be compiled and timed.
#pragma once

#include <cstddef>
#include <set>

#include "core/schedule/schedule.h"

namespace ferrite::core::tune {

/// What the group reads are inputs, what others see of it are outputs, constants stay constants: those of `constants`, which other
/// groups make at load, get contents of their own. Its kernel is the one that the group has in `schedule`.
schedule::Schedule alone(const schedule::Schedule& schedule, size_t group,
                         const std::set<schedule::BufferId>& constants);

/// Bytes of a kind that kernels compute with at their usual speed: floats in [-1, 1), which are no denormals; integers that are 0
/// and so valid indices.
void fill(DType dtype, std::span<std::byte> bytes);

}  // namespace ferrite::core::tune
