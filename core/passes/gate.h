// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass gate: the one function through which every pass of every hook runs.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/ir/graph/graph.h"
#include "core/passes/rewrite/apply.h"
#include "core/plugin/registry.h"
#include "core/schedule/schedule.h"
#include "core/support/ledger.h"

namespace ferrite::core::observe {
class Observation;
}

namespace ferrite::core::plugin {

/// Observes the changes that passes and rules make to a graph. An error of end() is final: the compilation
/// ends with it unchanged, whatever on_error says. An error of after() ends only the pass; end() must return
/// it again.
class PassWatcher : public rewrite::Watcher {
 public:
  virtual void begin(std::string_view phase, const PassEntry& pass, const graph::Graph& graph) = 0;
  /// `well`: the pass succeeded and left a valid graph.
  virtual Result<void> end(const graph::Graph& graph, bool well) = 0;
};

struct GateOptions {
  std::vector<std::string> only_passes;         ///< if not empty, only these run; each is PASS or PASS#RULE
  rewrite::NearMisses* near_misses = nullptr;   ///< if not null, receives near misses of rules
  PassWatcher* watcher = nullptr;               ///< observes passes over graphs
  observe::Observation* observation = nullptr;  ///< if not null, receives a span for each pass
  bool expect = true;  ///< whether to check the number of applications that manifests expect
};

/// The limits on applications and time for the rules of an entry.
rewrite::ApplyOptions apply_options(const PassEntry& entry, const Deadline& deadline);

/// Runs the passes of a phase over the graph, in order. Each pass is timed; its edits are journalled and
/// verified. A pass that fails, throws or leaves an invalid graph is rolled back and named in the error:
/// fatal (FE-P10, with the pass's own code in the text), or skipped if the manifest says on_error = "skip".
/// Every pass leaves a ledger record. Limits: FE-M21 for time, FE-M25 and FE-R18 for the number of changes.
/// FE-M20, which is never skipped, if a pass or rule was not applied as often as the manifest expects.
Result<void> run_phase(std::string_view phase, graph::Graph& graph, const Registry& registry,
                       const GateOptions& options, Ledger& ledger);
/// Runs phase pre_fusion: passes read the loop program and request or forbid fusions.
Result<void> run_pre_fusion(const loop::LoopProgram& program, const Registry& registry,
                            const GateOptions& options, schedule::FusionRequests& requests, Ledger& ledger);
/// Runs phase post_fusion: passes read the fusion groups and may split them.
Result<void> run_post_fusion(schedule::Schedule& schedule, const Registry& registry,
                             const GateOptions& options, Ledger& ledger);

}  // namespace ferrite::core::plugin
