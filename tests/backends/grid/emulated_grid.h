// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Grids without a device: a kernel as a GPU's backend emits it, for this CPU, each thread of a block with a stack of its own. What is the
// device's alone (numbers of threads, barriers, instructions of a warp) is done in software.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "ferrite/emitter/target.h"
#include "ferrite/loop.hpp"

namespace ferrite::kernel_test {

struct EmulatedKernel {
  int64_t blocks = 0;
  std::string text;  ///< the module, or why there is no code of it
  /// On one pointer a buffer that is not local, and the word of errors. Threads run up to where they wait for each other, or are about to
  /// exchange a word of memory if it is what they have read, by their numbers or `backwards`. Empty, or what is wrong: threads that do not all come to a barrier, lanes that do not all come to an instruction of
  /// theirs. None where there is no code.
  std::function<std::string(void* const* arguments, int64_t* error, bool backwards)> run;
};

/// By a GPU's table.
EmulatedKernel emulate_on_grid(const loop::Kernel& kernel, emitter::Target target);

}  // namespace ferrite::kernel_test
