// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The cost of kernels that a device's code generators compile.
#pragma once

#include <optional>

#include "core/plugin/advice.h"
#include "core/select/candidate_blocklist.h"
#include "runtime/device.h"

namespace ferrite::core::select {

class Prices {
 public:
  /// Keeps references to all arguments.
  Prices(plugin::CostModels& costs, CandidateBlocklist& blocklist, Ledger& ledger)
      : costs_(costs), blocklist_(blocklist), ledger_(ledger) {}

  /// The cost of a kernel by a cost model, else that of the cheapest code generator; none where all code
  /// generators decline it.
  Result<std::optional<plugin::CostModels::Price>> of(const runtime::Device& device,
                                                      const ferrite::loop::Kernel& kernel);

 private:
  plugin::CostModels& costs_;
  CandidateBlocklist& blocklist_;
  Ledger& ledger_;
};

}  // namespace ferrite::core::select
