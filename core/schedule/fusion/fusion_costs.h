// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Whether two groups that can be one kernel are better off as one.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "core/schedule/fusion/advisor.h"

namespace ferrite::core::schedule {

/// The statements of two groups, in order.
std::vector<uint32_t> members(const Group& first, const Group& second);

class FusionCosts {
 public:
  /// All outlive it. `callers`: storages that the caller has. `advisor`: null where there is none.
  FusionCosts(const LoopProgram& program, const Dependencies& deps, const std::set<BufferId>& callers,
              const FusionLimits& limits, FusionAdvisor* advisor)
      : program_(program), deps_(deps), callers_(callers), limits_(limits), advisor_(advisor) {}

  /// Why two groups that can be one are better apart; empty where they are not.
  std::string dearer(const FusionPair& edge, const Group& first, const Group& second, uint32_t shared) const;
  /// Whether one loop nest serves all statements, so that nothing lives longer than a point: maps over the shared loops, behind at
  /// most one reduction, and before that maps that make what it reads.
  bool is_one_nest(std::span<const uint32_t> statements, uint32_t shared) const;
  /// How long one worker takes, in elements that it would read meanwhile.
  int64_t work(const Group& group) const;
  /// What lives between the parts of one iteration of the shared loops.
  int64_t local_bytes(const Group& first, const Group& second, uint32_t shared) const;

 private:
  /// dearer() by an advisor that knows what all three kernels cost; else nothing.
  std::optional<std::string> dearer_by_prices(const FusionPair& edge, const Group& first, const Group& second,
                                              uint32_t shared) const;
  std::optional<FusionAdvisor::Price> price(const Group& group) const;
  /// Why two groups that only read the same are not to be one; empty where they are.
  std::string useless(const FusionPair& edge, const Group& first, const Group& second, uint32_t shared) const;
  /// What two groups move, apart and as one.
  int64_t moved_bytes(const Group& first, const Group& second) const;
  int64_t moved_bytes(const Group& first, const Group& second, uint32_t shared) const;
  /// What each worker at work does more than if all were, where there are `tasks`.
  int64_t idle_work(int64_t work, int64_t tasks) const;

  const LoopProgram& program_;
  const Dependencies& deps_;
  const std::set<BufferId>& callers_;
  const FusionLimits& limits_;
  FusionAdvisor* const advisor_;
};

}  // namespace ferrite::core::schedule
