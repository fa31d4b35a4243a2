// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Prologues of contractions: the contraction computes an operand where it reads it, so that the operand is
// never stored.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/schedule/fusion/advisor.h"
#include "core/schedule/fusion/mismatch.h"

namespace ferrite::core::schedule {

/// Lets code that may run a contraction object to computed operands, where not every implementation supports
/// them.
class OperandAdvisor {
 public:
  virtual ~OperandAdvisor() = default;
  /// Each pair is a map, alone in its group, and a contraction that could compute the map's result as its
  /// operand. Returns for each pair the reason to store the operand; empty where it can be computed.
  virtual std::vector<std::string> stored(const LoopProgram& program, const std::vector<Group>& groups,
                                          std::span<const FusionPair> operands) = 0;
};

/// Whether the statement at `map` is a map and writes all of `storage`, which is an operand of the
/// contraction at `contract`.
bool makes_operand(const LoopProgram& program, const Dependencies& deps, uint32_t map, uint32_t contract,
                   BufferId storage);

/// The reason why the contraction should read the operand from a buffer, or has to. No category where it
/// should compute it. Code generators keep or pack the computed operand, so that a task computes each element
/// about once. Where thread blocks compute tiles of products, each of them computes its part of the operand
/// again, so this pays only for elements that take part in few products. `at_load`: the map runs once, when
/// the program is loaded. makes_operand() holds.
Refusal prologue_refusal(LoopProgram& program, const Dependencies& deps, const TargetNumbers& target,
                         uint32_t map, uint32_t contract, BufferId storage, bool at_load);

/// Turn this: %0 = load @a[i, k]; store @t[i, k] = f(%0)
/// followed by: contract of %0, %1: %0 = load @t[i, r]; %1 = load @b[r, j]
/// into this: contract of %1, %2: %0 = load @a[i, r]; %1 = f(%0); %2 = load @b[r, j]
/// `deps` is updated: the contraction reads the inputs of the map, and the map has no accesses left.
void take_prologue(LoopProgram& program, Dependencies& deps, uint32_t map, uint32_t contract,
                   BufferId storage);

}  // namespace ferrite::core::schedule
