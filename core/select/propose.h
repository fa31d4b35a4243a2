// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a provider proposes for a kernel.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "core/select/pack.h"
#include "runtime/device.h"

namespace ferrite::core::runtime {

/// A provider's fe_candidate, copied.
struct Proposal {
  uint64_t id = 0;
  std::string name;
  double cost = 0;  ///< seconds
  int64_t workspace_bytes = 0;
  size_t covered = 0;  ///< leading statements, of those that the kernel has
  std::vector<OperandLayout> layouts;
};

/// All proposals for a flat kernel of so many statements, the cheapest first; of equals, the one that was given first. Empty where the
/// provider declines: `declined` then has its reason. Errors are the provider's own, or FE-K20. FE-S22 for a candidate whose
/// numbers cannot be: a cost that is no time, a negative workspace, more statements than the kernel has.
Result<std::vector<Proposal>> propose(const Compiler& compiler, std::span<const std::byte> kernel,
                                      size_t statements, std::string& declined);

/// The proposals for a kernel in the kinds of statements that the provider takes, of those the ones that cover all of it. Errors as
/// of propose().
Result<std::vector<Proposal>> propose_whole(const Compiler& compiler, const loop::Kernel& kernel,
                                            std::string& declined);

}  // namespace ferrite::core::runtime
