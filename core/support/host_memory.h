// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How much memory this process can have.
#pragma once

#include <cstdint>

namespace ferrite::core {

/// Bytes of the machine's memory and swap, or of the smallest control group that the process is in, whichever is less. What others use
/// of it is not subtracted. Any-thread.
int64_t host_memory_bytes();

}  // namespace ferrite::core
