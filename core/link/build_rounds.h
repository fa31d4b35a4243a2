// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From groups to an executable: devices, candidates, code, memory and launches. Repeats in rounds until every
// choice works.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "core/ir/loop/program.h"
#include "core/link/builder.h"
#include "core/link/kernel_cache.h"
#include "core/link/measure.h"
#include "core/observe/stage_watch.h"
#include "core/plugin/advice.h"
#include "core/schedule/schedule.h"
#include "core/select/decisions.h"
#include "core/support/ledger.h"

namespace ferrite::core::link {

using namespace ferrite::core::runtime;

struct BuildInputs {
  schedule::Schedule& groups;  ///< empty where `kernel` is given
  /// the same with unmerged maps; where a device has a library
  const std::optional<schedule::Schedule>& parts;
  const std::optional<loop::Kernel>& kernel;  ///< compiled alone, instead of groups
  const std::vector<select::Region>& regions;
  const Devices& devices;
  select::CandidateBlocklist& blocklist;
  plugin::CostModels& costs;
  select::Decisions& decisions;
  Ledger& ledger;
  observe::StageWatch& watch;
};

struct BuildRequest {
  /// where candidates are measured, they get a cache of their own with counts of its own
  BuildOptions options;
  cache::OpenKernelCache open_cache;  ///< empty: nothing is cached
  tune::Services services;
  tune::Options tune;
  bool stores_in_place = true;  ///< results may overwrite operands that are dead
  bool links = true;            ///< false: building ends before anything is loaded
  /// where not linked: `listing` has the code of kernels instead of the selection and the plan
  bool lists_code = false;
};

struct Built {
  std::shared_ptr<Executable> executable;  ///< null where it was not linked
  std::string listing;                     ///< where it was not linked
};

/// Builds in rounds. A candidate, provider or device that fails is added to the blocklist, with a record in
/// the ledger, and the next round avoids it. There are finitely many, so the rounds end. Errors: those of
/// Builder, of select_libraries() and of measuring; FE-T43 where a decisions lock has a kernel that the
/// program does not have; FE-C10 where a lock cannot be written.
Result<Built> build(const BuildInputs& inputs, const BuildRequest& request);

}  // namespace ferrite::core::link
