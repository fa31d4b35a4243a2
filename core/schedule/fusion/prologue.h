// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Prologues of contractions: a map that makes an operand is computed where that is read, so that the operand is never stored.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/schedule/fusion/advisor.h"
#include "core/schedule/fusion/mismatch.h"

namespace ferrite::core::schedule {

/// Whom fusion asks about contractions that may compute operands, where not everybody takes these.
class OperandAdvisor {
 public:
  virtual ~OperandAdvisor() = default;
  /// Each pair is of a map, a group of its own, and the contraction that it makes an operand of, which it may be computed in. Gives
  /// for each why it is to be stored all the same; empty where it is not.
  virtual std::vector<std::string> stored(const LoopProgram& program, const std::vector<Group>& groups,
                                          std::span<const FusionPair> operands) = 0;
};

/// Whether the statement at `map` is a map and makes all of `storage`, which the contraction at `contract` has as an operand.
bool makes_operand(const LoopProgram& program, const Dependencies& deps, uint32_t map, uint32_t contract,
                   BufferId storage);

/// Why the contraction is better off with the operand as a buffer, or cannot do without it; no category where it is to compute
/// it. Code generators keep, or pack, what they compute of an operand, so that each element is computed about once for a task.
/// Where products are in tiles of blocks, each of which computes its part again, that is once for few products of an element alone.
/// `at_load`: the map runs once, when the program is loaded. makes_operand() holds.
Refusal prologue_refusal(LoopProgram& program, const Dependencies& deps, const TargetNumbers& target,
                         uint32_t map, uint32_t contract, BufferId storage, bool at_load);

/// Turn this: %0 = load @a[i, k]; store @t[i, k] = f(%0)   then   contract of %0, %1: %0 = load @t[i, r]; %1 = load @b[r, j]
/// into this: contract of %1, %2: %0 = load @a[i, r]; %1 = f(%0); %2 = load @b[r, j]
/// `deps` then has what the map read as read by the contraction, and nothing of the map.
void take_prologue(LoopProgram& program, Dependencies& deps, uint32_t map, uint32_t contract,
                   BufferId storage);

}  // namespace ferrite::core::schedule
