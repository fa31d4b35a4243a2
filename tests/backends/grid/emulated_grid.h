// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// GPU kernels without a device: a kernel as a GPU backend emits it, compiled for this CPU, with a stack for
// each thread of a block. Device functions (thread indices, barriers, warp instructions) are emulated in
// software.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "ferrite/emitter/target.h"
#include "ferrite/loop.hpp"

namespace ferrite::kernel_test {

struct EmulatedKernel {
  int64_t blocks = 0;
  std::string text;  ///< text of the module, or the reason why there is no code
  /// Runs the kernel with one pointer per non-local buffer, and the error word. Threads run until they have
  /// to wait for each other, or until just before an atomic exchange of a word that they have read, in the
  /// order of their numbers or `backwards`. Returns "" or an error text, for instance if not all threads
  /// reach a barrier, or not all lanes a warp instruction. Empty function: there is no code.
  std::function<std::string(void* const* arguments, int64_t* error, bool backwards)> run;
};

/// Emulates the kernel with a GPU's table.
EmulatedKernel emulate_on_grid(const loop::Kernel& kernel, emitter::Target target);

}  // namespace ferrite::kernel_test
