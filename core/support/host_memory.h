// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How much memory this process may use.
#pragma once

#include <cstdint>

namespace ferrite::core {

/// Bytes of the machine's memory and swap, or the limit of the tightest control group of this process,
/// whichever is less. Memory in use by other processes is not subtracted. Any-thread.
int64_t host_memory_bytes();

}  // namespace ferrite::core
