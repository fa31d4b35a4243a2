// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The kernel of a group of a program that need not be a schedule yet.
#pragma once

#include <functional>

#include "core/schedule/schedule.h"

namespace ferrite::core::schedule {

/// `local`: whether only this group accesses a storage that it writes. Such a storage lives inside one
/// iteration of the shared loops.
GroupKernel kernel_of(const LoopProgram& program, const Group& group,
                      const std::function<bool(BufferId storage)>& local);

/// The statement as a kernel of its own.
inline GroupKernel kernel_of(const LoopProgram& program, uint32_t statement) {
  return kernel_of(program, {{statement}, 0}, [](BufferId) { return false; });
}

}  // namespace ferrite::core::schedule
