// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How much memory this process may use, and giving some of it back.
#pragma once

#include <cstdint>

namespace ferrite::core {

/// Bytes of the machine's memory and swap, or the limit of the tightest control group of this process,
/// whichever is less. Memory in use by other processes is not subtracted. Any-thread.
int64_t host_memory_bytes();

/// Gives the whole pages of memory whose contents nobody needs back to the system; they are zero, or as in
/// the file that is mapped there, when they are used again. Memory that has no pages to give, locked memory
/// among it, stays as it is. Any-thread.
void release_pages(const void* data, int64_t bytes);

}  // namespace ferrite::core
