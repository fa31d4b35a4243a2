// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A kernel as canonical bytes (ferrite/abi/kernel.h), named by their hash.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "core/ir/loop/program.h"
#include "core/support/error.h"

namespace ferrite::core::kernel {

struct FlatKernel {
  std::vector<std::byte> bytes;
  std::string entry;  ///< "k_" and 32 hex digits: XXH3-128 of the semantic sections
  std::vector<ferrite::loop::BufferId>
      buffers;  ///< by buffer of the container: its number in the kernel given
};

/// Two kernels that compute the same in the same way give the same bytes, whatever their names, pools and numbers: symbols,
/// expressions, operations and buffers are renumbered in order of first use, and what is not used is left out. Reductions
/// and carries follow the order in which the stores need them. `provenance` goes into a section that is not hashed.
/// Errors: FE-K06 the kernel is malformed.
Result<FlatKernel> flatten(const ferrite::loop::Kernel& kernel, std::string_view provenance = {});

/// The kernel that `flatten` writes: canonical numbers, one pool, shared variables with one symbol. `buffers` as above.
ferrite::loop::Kernel canonical(const ferrite::loop::Kernel& kernel,
                                std::vector<ferrite::loop::BufferId>& buffers);

}  // namespace ferrite::core::kernel
