// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The interface through which plugins influence fusion: they rank, decide and price pairs that may legally
// become one kernel.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/schedule/schedule.h"

namespace ferrite::core::schedule {

/// Two statements that share a buffer, the earlier one first.
struct FusionPair {
  uint32_t first = 0, second = 0;
  BufferId buffer = none;  ///< a storage; none where a pass requested the pair
  bool reads = false;      ///< both only read it
  int64_t bytes = 0;
};

/// The kernel that fusion of the pair would give.
struct FusionTrial {
  const Group &first, &second;
  uint32_t shared;  ///< number of shared loops
  bool cheaper;     ///< fusion would be chosen by cost
};

class FusionAdvisor {
 public:
  enum class Verdict : uint8_t { no_opinion, fuse, refuse };
  struct Advice {
    Verdict verdict = Verdict::no_opinion;
    std::string by;  ///< "fusion policy 'acme.wide'"
  };

  /// The run time of a kernel according to a cost model.
  struct Price {
    double seconds = 0;
    std::string by;  ///< "cost model 'acme.table'"
  };

  virtual ~FusionAdvisor() = default;
  /// A score for each pair, or no scores at all. Pairs with higher scores are tried earlier; equal ones keep
  /// their order.
  virtual std::vector<double> rank(const LoopProgram& program, std::span<const FusionPair> pairs) = 0;
  /// Called for legal pairs only.
  virtual Advice decide(const LoopProgram& program, const FusionPair& pair, const FusionTrial& trial) = 0;
  /// Whether price() can ever return a price; callers save the work of making kernels otherwise.
  virtual bool has_prices() const = 0;
  /// Nothing where the cost model does not know the kernel.
  virtual std::optional<Price> price(const Kernel& kernel) = 0;
};

}  // namespace ferrite::core::schedule
