// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The interface through which a compilation has candidates measured. The driver implements it with the
// autotuner.
#pragma once

#include <functional>

#include "core/link/builder.h"
#include "core/plugin/advice.h"
#include "core/select/decisions.h"
#include "core/select/placement.h"

namespace ferrite::core::tune {

/// The subject of tuning: the placed groups.
struct Subject {
  const schedule::Schedule& groups;
  const schedule::Schedule* parts;  ///< as for select_libraries(); null where no device has a library
  const select::Placement& placement;
  const runtime::Devices& devices;
};

/// Measures the candidates without a known decision, within the budget of the options, and reports to
/// `decisions` and the ledger.
using Measure = std::function<Result<void>(const Subject& subject, const Options& options,
                                           const link::BuildOptions& build, plugin::CostModels& costs,
                                           const select::CandidateBlocklist& blocklist,
                                           select::Decisions& decisions, Ledger& ledger)>;

}  // namespace ferrite::core::tune
