// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which operands are stored for libraries that take contractions, but none that compute their operands.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/schedule/fusion/prologue.h"
#include "core/select/placement.h"

namespace ferrite::core::select {

/// Whether a device has a library that takes kernels, and none with computed operands.
bool wants_stored_operands(const runtime::Devices& devices);

/// Compares, contraction by contraction: a library with the operands stored, and the maps that store them; and a code generator that
/// computes them where they are read.
class StoredOperands : public schedule::OperandAdvisor {
 public:
  /// All outlive it.
  StoredOperands(const runtime::Devices& devices, plugin::CostModels& costs,
                 const schedule::MemoryLimit& memory, const CandidateBlocklist& blocklist,
                 tune::Decisions& decisions)
      : devices_(devices), costs_(costs), memory_(memory), blocklist_(blocklist), decisions_(decisions) {}

  std::vector<std::string> stored(const schedule::LoopProgram& program,
                                  const std::vector<schedule::Group>& groups,
                                  std::span<const schedule::FusionPair> operands) override;
  /// What a provider failed with when it was asked.
  Result<void> check() const { return failed_; }

 private:
  Result<std::vector<std::string>> choose(const schedule::LoopProgram& program,
                                          const std::vector<schedule::Group>& groups,
                                          std::span<const schedule::FusionPair> operands);

  const runtime::Devices& devices_;
  plugin::CostModels& costs_;
  const schedule::MemoryLimit& memory_;
  const CandidateBlocklist& blocklist_;
  tune::Decisions& decisions_;
  Result<void> failed_;
};

}  // namespace ferrite::core::select
