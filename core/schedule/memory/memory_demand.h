// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Programs whose tensors nobody could hold are refused before memory is asked for.
#pragma once

#include <cstdint>

#include "core/schedule/schedule.h"

namespace ferrite::core::schedule {

/// What is held for a program: what the caller gets, and where `between` says so what lives between its kernels, too.
struct HeldMemory {
  int64_t limit = 0;    ///< bytes, at a time
  bool between = true;  ///< else that is in the memory of a device, which the limit says nothing about
};

/// FE-S30 where an input or what the groups store for others is more than the limit at a time; it names the node that makes the largest
/// of that, its type and its bytes.
Result<void> check_held(const Schedule& schedule, const HeldMemory& memory);

/// The same for the interpreter, which holds all that statements store at once.
Result<void> check_held(const LoopProgram& program, int64_t limit);

}  // namespace ferrite::core::schedule
