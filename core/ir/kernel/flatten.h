// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Serialises a kernel to canonical bytes (ferrite/abi/kernel.h), named by their hash.
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
  std::string entry;  ///< "k_" and 32 hex digits: the XXH3-128 of the semantic sections
  std::vector<ferrite::loop::BufferId>
      buffers;  ///< by buffer of the container: its number in the original kernel
};

/// Two kernels that compute the same values by the same operations give the same bytes, whatever their names,
/// pools and numbers: symbols, expressions, operations and buffers are renumbered in order of first use, and
/// unused ones are dropped. Reductions and carries are ordered as the stores need them. `provenance` is
/// stored in a section that is not hashed.
/// FE-K06 if the kernel is malformed.
Result<FlatKernel> flatten(const ferrite::loop::Kernel& kernel, std::string_view provenance = {});

/// The kernel that flatten() serialises: canonical numbers, one pool, one symbol per shared variable.
/// `buffers` as in FlatKernel.
ferrite::loop::Kernel canonical(const ferrite::loop::Kernel& kernel,
                                std::vector<ferrite::loop::BufferId>& buffers);

}  // namespace ferrite::core::kernel
