// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The interface through which a compilation measures candidates and keeps decisions. The driver implements it
// with the autotuner, a folder of decisions and the decisions lock.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "core/link/builder.h"
#include "core/plugin/advice.h"
#include "core/select/decisions.h"
#include "core/select/placement.h"
#include "core/select/tuning_options.h"

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

/// The decisions that a compilation begins with. `contexts`, which hashes all compilers of all devices, is
/// called only where decisions are stored.
using OpenDecisions = std::function<Result<select::Decisions>(
    const Options& options, const std::function<select::Decisions::Contexts()>& contexts)>;

/// Writes the choices of a compilation to the decisions lock Options::lock.
using WriteLock = std::function<Result<void>(const std::string& path, std::span<const select::Taken> taken,
                                             const runtime::Devices& devices)>;

/// Where nothing is set, cost models decide, whatever the options say.
struct Services {
  Measure measure;
  OpenDecisions open_decisions;
  WriteLock write_lock;
};

}  // namespace ferrite::core::tune
