// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Whether two groups that can be one kernel run faster as one.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "core/schedule/fusion/advisor.h"

namespace ferrite::core::schedule {

/// The statements of both groups, in order of execution.
std::vector<uint32_t> members(const Group& first, const Group& second);

class FusionCosts {
 public:
  /// Keeps references to all arguments. `callers`: storages that the caller owns. `advisor`: null where there
  /// is none.
  FusionCosts(const LoopProgram& program, const Dependencies& deps, const std::set<BufferId>& callers,
              const FusionLimits& limits, FusionAdvisor* advisor)
      : program_(program), deps_(deps), callers_(callers), limits_(limits), advisor_(advisor) {}

  /// The reason why two groups that can be one kernel run faster as two; empty where they do not.
  std::string dearer(const FusionPair& edge, const Group& first, const Group& second, uint32_t shared) const;
  /// Whether one loop nest can run all statements, so that no value lives longer than one point. It can where
  /// they are maps that feed at most one reduction, that reduction, and maps over the shared loops after it.
  bool is_one_nest(std::span<const uint32_t> statements, uint32_t shared) const;
  /// The time that one worker takes for a group, in elements that it could read meanwhile.
  int64_t work(const Group& group) const;
  /// The bytes of values that live between the parts of one iteration of the shared loops.
  int64_t local_bytes(const Group& first, const Group& second, uint32_t shared) const;

 private:
  /// dearer() by an advisor that knows the cost of all three kernels; nothing where it does not.
  std::optional<std::string> dearer_by_prices(const FusionPair& edge, const Group& first, const Group& second,
                                              uint32_t shared) const;
  std::optional<FusionAdvisor::Price> price(const Group& group) const;
  /// The reason why two groups that only read a common buffer should not be fused; empty where they should.
  std::string useless(const FusionPair& edge, const Group& first, const Group& second, uint32_t shared) const;
  /// The reason why one kernel, which runs when all operands of the second group exist, would keep operands
  /// of the first group in memory too long; empty where it would not.
  std::string keeps_operands(const Group& first, const Group& second) const;
  /// The bytes that two groups move, as two kernels and as one.
  int64_t moved_bytes(const Group& first, const Group& second) const;
  int64_t moved_bytes(const Group& first, const Group& second, uint32_t shared) const;
  /// The additional work of each busy worker where there are only `tasks` of them, compared with all workers
  /// being busy.
  int64_t idle_work(int64_t work, int64_t tasks) const;

  const LoopProgram& program_;
  const Dependencies& deps_;
  const std::set<BufferId>& callers_;
  const FusionLimits& limits_;
  FusionAdvisor* const advisor_;
};

}  // namespace ferrite::core::schedule
