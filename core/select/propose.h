// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The candidates that a provider proposes for a kernel.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "core/select/pack.h"
#include "runtime/device.h"

namespace ferrite::core::select {

using namespace ferrite::core::runtime;

/// A provider's fe_candidate, copied.
struct Proposal {
  uint64_t id = 0;
  std::string name;
  double cost = 0;  ///< seconds
  int64_t workspace_bytes = 0;
  size_t covered = 0;  ///< number of leading statements of the kernel that it runs
  std::vector<OperandLayout> layouts;
};

/// All proposals for a flat kernel of this many statements, the cheapest first; equal ones in the provider's
/// order. Empty where the provider declines; `declined` then has its reason. Errors are the provider's own,
/// or FE-K20. FE-S22 for a candidate with impossible numbers: an invalid cost, a negative workspace, or more
/// statements than the kernel has.
Result<std::vector<Proposal>> propose(const Compiler& compiler, std::span<const std::byte> kernel,
                                      size_t statements, std::string& declined);

/// The proposals that run all of a kernel, after legalising it for the provider. Errors are those of
/// propose().
Result<std::vector<Proposal>> propose_whole(const Compiler& compiler, const loop::Kernel& kernel,
                                            std::string& declined);

}  // namespace ferrite::core::select
