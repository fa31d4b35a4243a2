// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What is said of a compiled kernel beside its code.
#pragma once

#include <cstdint>
#include <string>

#include "ferrite/loop.hpp"

namespace ferrite::core::runtime {

/// Why no kernel can be launched with these: negative tasks, grain or workspace, or more workspace of a worker than any machine
/// has. Of a kernel that is known also no tasks where it has points, or more than points of all its statements. Empty where one
/// can. Whoever says them, a provider, a package or a file of the cache, is asked the same.
std::string unfit(int64_t tasks, int64_t grain, int64_t workspace_bytes,
                  const loop::Kernel* kernel = nullptr);

}  // namespace ferrite::core::runtime
