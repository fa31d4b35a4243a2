// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Checks the launch data that accompany a compiled kernel.
#pragma once

#include <cstdint>
#include <string>

#include "ferrite/loop.hpp"

namespace ferrite::core::runtime {

/// Why a kernel with these launch data cannot be launched: negative tasks, grain or workspace, or a workspace
/// per worker larger than any machine's memory. If the kernel is given, also no tasks although it has points,
/// or more tasks than its statements have points together. Empty if it can. Data from a provider, a package
/// or a cache file all go through this check.
std::string unfit(int64_t tasks, int64_t grain, int64_t workspace_bytes,
                  const loop::Kernel* kernel = nullptr);

}  // namespace ferrite::core::runtime
