// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Whom fusion asks about pairs that may legally become one kernel.
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
  BufferId buffer = none;  ///< a storage; none: a pass asks for the pair
  bool reads = false;      ///< both only read it
  int64_t bytes = 0;
};

/// What would become of the pair's groups.
struct FusionTrial {
  const Group &first, &second;
  uint32_t shared;  ///< loops
  bool cheaper;     ///< fusion would make them one
};

class FusionAdvisor {
 public:
  enum class Verdict : uint8_t { no_opinion, fuse, refuse };
  struct Advice {
    Verdict verdict = Verdict::no_opinion;
    std::string by;  ///< "fusion policy 'acme.wide'"
  };

  /// Of a kernel, by somebody who knows it.
  struct Price {
    double seconds = 0;
    std::string by;  ///< "cost model 'acme.table'"
  };

  virtual ~FusionAdvisor() = default;
  /// A score for each pair, or none at all: pairs with higher scores are tried earlier, equal ones in their order.
  virtual std::vector<double> rank(const LoopProgram& program, std::span<const FusionPair> pairs) = 0;
  /// Asked about legal pairs only.
  virtual Advice decide(const LoopProgram& program, const FusionPair& pair, const FusionTrial& trial) = 0;
  /// Whether it is worth while to ask for prices.
  virtual bool has_prices() const = 0;
  /// Nothing where the kernel is not known.
  virtual std::optional<Price> price(const Kernel& kernel) = 0;
};

}  // namespace ferrite::core::schedule
