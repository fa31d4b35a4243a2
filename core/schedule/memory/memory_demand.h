// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Rejecting programs whose tensors do not fit into memory, before memory is requested.
#pragma once

#include <cstdint>

#include "core/schedule/schedule.h"

namespace ferrite::core::schedule {

/// The memory that counts for a program: its results and, where `between` is set, the buffers between its
/// kernels.
struct HeldMemory {
  int64_t limit = 0;    ///< bytes at a time
  bool between = true;  ///< false: these buffers are in a device's memory, to which the limit does not apply
};

/// FE-S30 where an input, or the storages that groups write for others, exceed the limit at a time. The error
/// names the node that makes the largest of them, its type and its bytes.
Result<void> check_held(const Schedule& schedule, const HeldMemory& memory);

/// The same for the interpreter, which holds the results of all statements at once.
Result<void> check_held(const LoopProgram& program, int64_t limit);

}  // namespace ferrite::core::schedule
