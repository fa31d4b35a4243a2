// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Decides which operands are stored for libraries that run contractions but cannot compute their operands.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/schedule/fusion/prologue.h"
#include "core/select/placement.h"

namespace ferrite::core::select {

/// Whether a device has a library that runs kernels but does not support computed operands.
bool wants_stored_operands(const runtime::Devices& devices);

/// Compares, for each contraction, two alternatives: a library that reads stored operands together with the
/// maps that store them, and a code generator that computes the operands where it reads them.
class StoredOperands : public schedule::OperandAdvisor {
 public:
  /// Keeps references to all arguments but the memory limit.
  StoredOperands(const runtime::Devices& devices, plugin::CostModels& costs,
                 const schedule::MemoryLimit& memory, const CandidateBlocklist& blocklist,
                 Decisions& decisions)
      : devices_(devices), costs_(costs), memory_(memory), blocklist_(blocklist), decisions_(decisions) {}

  std::vector<std::string> stored(const schedule::LoopProgram& program,
                                  const std::vector<schedule::Group>& groups,
                                  std::span<const schedule::FusionPair> operands) override;
  /// The first error of a provider that was asked.
  Result<void> check() const { return failed_; }

 private:
  Result<std::vector<std::string>> choose(const schedule::LoopProgram& program,
                                          const std::vector<schedule::Group>& groups,
                                          std::span<const schedule::FusionPair> operands);

  const runtime::Devices& devices_;
  plugin::CostModels& costs_;
  const schedule::MemoryLimit memory_;
  const CandidateBlocklist& blocklist_;
  Decisions& decisions_;
  Result<void> failed_;
};

}  // namespace ferrite::core::select
