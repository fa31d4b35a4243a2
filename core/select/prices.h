// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What kernels cost where a device's code generators compile them.
#pragma once

#include <optional>

#include "core/plugin/advice.h"
#include "core/select/candidate_blocklist.h"
#include "runtime/device.h"

namespace ferrite::core::select {

class Prices {
 public:
  /// All outlive it.
  Prices(plugin::CostModels& costs, CandidateBlocklist& blocklist, Ledger& ledger)
      : costs_(costs), blocklist_(blocklist), ledger_(ledger) {}

  /// What a cost model says that a kernel costs, else the cheapest code generator; none where all of these decline.
  Result<std::optional<plugin::CostModels::Price>> of(const runtime::Device& device,
                                                      const ferrite::loop::Kernel& kernel);

 private:
  plugin::CostModels& costs_;
  CandidateBlocklist& blocklist_;
  Ledger& ledger_;
};

}  // namespace ferrite::core::select
