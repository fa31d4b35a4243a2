// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How a compilation has candidates measured: the interface. The driver has the autotuner.
#pragma once

#include <functional>

#include "core/link/builder.h"
#include "core/plugin/advice.h"
#include "core/select/decisions.h"
#include "core/select/placement.h"

namespace ferrite::core::tune {

/// What is tuned: the groups as they are placed.
struct Subject {
  const schedule::Schedule& groups;
  const schedule::Schedule* parts;  ///< as select_libraries() takes it; null where no device has a library
  const select::Placement& placement;
  const runtime::Devices& devices;
};

/// Measures the candidates of which nothing is known yet, within the budget of the options, and tells `decisions` and the ledger.
using Measure = std::function<Result<void>(const Subject& subject, const Options& options,
                                           const runtime::BuildOptions& build, plugin::CostModels& costs,
                                           const select::CandidateBlocklist& blocklist, Decisions& decisions,
                                           Ledger& ledger)>;

}  // namespace ferrite::core::tune
