// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From groups to an executable: a device and a candidate for each, code, memory, launches; in rounds, until all that was chosen works.
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

namespace ferrite::core::runtime {

struct BuildInputs {
  schedule::Schedule& groups;                      ///< without any where `kernel` is given
  const std::optional<schedule::Schedule>& parts;  ///< with maps apart; where a device has a library
  const std::optional<loop::Kernel>& kernel;       ///< compiled alone, in place of groups
  const std::vector<select::Region>& regions;
  const Devices& devices;
  select::CandidateBlocklist& blocklist;
  plugin::CostModels& costs;
  tune::Decisions& decisions;
  Ledger& ledger;
  observe::StageWatch& watch;
};

struct BuildRequest {
  BuildOptions options;  ///< its cache is opened anew where candidates are measured, for counts of their own
  cache::OpenKernelCache open_cache;  ///< empty: nothing is kept
  tune::Measure measure;              ///< empty: nothing is measured
  tune::Options tune;
  bool stores_in_place = true;  ///< results may take the place of operands that nobody reads again
  bool links = true;            ///< else it ends before anything is loaded
  bool lists_code = false;  ///< of what is not linked: the code of kernels, not what was selected and planned
};

struct Built {
  std::shared_ptr<Executable> executable;  ///< null where it is not linked
  std::string listing;                     ///< where it is not
};

/// A candidate, provider or device that turns out not to work is refused, with a record in the ledger, and the next round does
/// without it; there are finitely many, so that the rounds end. The errors of Builder, of select_libraries() and of measuring;
/// FE-T43 where a decisions lock has a kernel that the program has not, FE-C10 where one cannot be written.
Result<Built> build(const BuildInputs& inputs, const BuildRequest& request);

}  // namespace ferrite::core::runtime
