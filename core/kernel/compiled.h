// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What is said of a compiled kernel beside its code.
#pragma once

#include <cstdint>
#include <string>

#include "ferrite/loop.hpp"

namespace ferrite::core::kernel {

/// Why no kernel can be launched with these: negative tasks, grain or workspace, or more workspace of a worker than any machine
/// has. Empty where one can. Whoever says them, a provider, a package or a file of the cache, is asked the same.
std::string unfit(int64_t tasks, int64_t grain, int64_t workspace_bytes);

/// Why this kernel cannot be launched with so many tasks: none where it has points, or more than points of all its statements.
std::string unfit(const loop::Kernel& kernel, int64_t tasks);

}  // namespace ferrite::core::kernel
