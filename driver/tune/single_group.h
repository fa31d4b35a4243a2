// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One group of a schedule as a program of its own, which can be compiled and timed.
#pragma once

#include <cstddef>
#include <set>

#include "core/schedule/schedule.h"

namespace ferrite::core::tune {

/// Buffers that the group reads become inputs, buffers that others read become outputs, and constants stay
/// constants; those of `constants`, which other groups compute at load, get artificial contents. The kernel
/// is the same as that of the group in `schedule`.
schedule::Schedule alone(const schedule::Schedule& schedule, size_t group,
                         const std::set<schedule::BufferId>& constants);

/// Fills memory with values on which kernels compute at their usual speed: floats in [-1, 1), none of them
/// denormal; integers are 0, and so valid indices.
void fill(DType dtype, std::span<std::byte> bytes);

}  // namespace ferrite::core::tune
