// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// ferrite plugin order: the passes of each phase in their order, with the origin of each constraint.
#include <algorithm>

#include "core/support/suggest.h"
#include "tools/cli/commands/plugin.h"

namespace ferrite::cli {
namespace {

namespace plugin = core::plugin;

struct PluginOrderOptions {
  PipelineOptions pipeline;
  std::string phase;
};

/// A constraint without effect, because the other pass exists but runs in other phases.
void print_idle(const std::vector<plugin::PassEntry>& passes, const plugin::PassEntry& pass, bool after,
                const std::string& name) {
  std::vector<std::string_view> phases;
  for (const auto& other : passes)
    if (other.name == name) phases.push_back(other.phase);
  if (phases.empty() || std::find(phases.begin(), phases.end(), pass.phase) != phases.end()) return;
  fmt::print("       {} {}: no effect, it runs in {}\n", after ? "after" : "before", name,
             fmt::join(phases, ", "));
}

Result<void> print_phase(const std::vector<plugin::PassEntry>& passes, std::string_view phase) {
  FE_TRY(const auto order, plugin::order_passes(passes, phase));
  if (order.empty()) return {};
  const auto edges = plugin::order_edges(passes, phase);
  fmt::print("{}:\n", phase);
  for (size_t k = 0; k < order.size(); ++k) {
    fmt::print("  {:>2} {} ({})\n", k + 1, order[k]->name, order[k]->plugin->id);
    for (const auto& edge : edges)
      if (edge.second == order[k]) fmt::print("       after {}: {}\n", edge.first->name, edge.reason);
    for (const auto* names : {&order[k]->after, &order[k]->before})
      for (const auto& name : *names) print_idle(passes, *order[k], names == &order[k]->after, name);
  }
  for (const auto& pass : passes)
    if (pass.phase == phase && !pass.enabled)
      fmt::print("   - {} ({}): disabled\n", pass.name, pass.plugin->id);
  return {};
}

Result<void> print_order(const PluginOrderOptions& options) {
  const auto phases = plugin::phases();
  if (!options.phase.empty() && std::find(phases.begin(), phases.end(), options.phase) == phases.end())
    return core::at(options.phase, error(FE_EINVALID, "FE-C04", "there is no such phase; the phases are {}{}",
                                         fmt::join(phases, ", "), core::did_you_mean(options.phase, phases)));
  FE_TRY(auto pipeline, options.pipeline.read());
  FE_TRY(auto session, core::Session::open(pipeline));
  for (auto phase : phases)
    if (options.phase.empty() || options.phase == phase)
      FE_CHECK(print_phase(session->registry().passes(), phase));
  fmt::print("passes without constraints run by plugin id and name\n");
  return {};
}

}  // namespace

Run add_plugin_order(CLI::App& command) {
  auto options = std::make_shared<PluginOrderOptions>();
  command.add_option("phase", options->phase, "Only this phase")->type_name("PHASE");
  options->pipeline.add_to(command);
  return [options] {
    auto done = print_order(*options);
    return done ? 0 : report(done.error());
  };
}

}  // namespace ferrite::cli
