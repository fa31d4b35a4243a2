// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What is said of a compiled kernel beside its code.
#pragma once

#include <cstdint>
#include <string>

namespace ferrite::core::kernel {

/// Why nothing can be launched with these: negative tasks, grain or workspace, or more workspace of a worker than there is. Empty
/// where it can. Whoever says them, a provider, a package or a file of the cache, is asked the same.
std::string unfit(int64_t tasks, int64_t grain, int64_t workspace_bytes);

}  // namespace ferrite::core::kernel
