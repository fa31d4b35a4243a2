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

/// Looks at what passes and rules do to a graph. An error of end() is a verdict: the compilation ends with it as it is, whatever
/// on_error says. One of after() ends the pass only; end() gives it again.
class PassWatcher : public rewrite::Watcher {
 public:
  virtual void begin(std::string_view phase, const PassEntry& pass, const graph::Graph& graph) = 0;
  /// `well`: the pass succeeded and left a valid graph.
  virtual Result<void> end(const graph::Graph& graph, bool well) = 0;
};

struct GateOptions {
  std::vector<std::string> only_passes;         ///< not empty: others are skipped; PASS, or PASS#RULE
  rewrite::NearMisses* near_misses = nullptr;   ///< where not null: where rules nearly matched is added to it
  PassWatcher* watcher = nullptr;               ///< of the passes over graphs
  observe::Observation* observation = nullptr;  ///< where not null: gets a span of each pass
  bool expect = true;  ///< whether a pass is to be applied as often as manifests expect
};

/// How often and how long the rules of an entry may be applied.
rewrite::ApplyOptions apply_options(const PassEntry& entry, const Deadline& deadline);

/// Runs the passes of a phase over the graph in their order. Each is timed, its edits are journalled and verified, and a pass
/// that fails, throws or leaves the graph invalid is rolled back and named: fatal (FE-P10 and the pass's own code in the text),
/// or skipped where the manifest says on_error = "skip". Every pass leaves a ledger record. Passes
/// keep within their limits: FE-M21 for the time, FE-M25 and FE-R18 for the changes. FE-M20, which is never skipped, for a pass or
/// rule that was not applied as often as the manifest expects.
Result<void> run_phase(std::string_view phase, graph::Graph& graph, const Registry& registry,
                       const GateOptions& options, Ledger& ledger);
/// pre_fusion: passes see the loop program and ask for or forbid fusions.
Result<void> run_pre_fusion(const loop::LoopProgram& program, const Registry& registry,
                            const GateOptions& options, schedule::FusionRequests& requests, Ledger& ledger);
/// post_fusion: passes see the groups and may split them.
Result<void> run_post_fusion(schedule::Schedule& schedule, const Registry& registry,
                             const GateOptions& options, Ledger& ledger);

}  // namespace ferrite::core::plugin
