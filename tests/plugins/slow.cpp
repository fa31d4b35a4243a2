// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A pass that does not come to an end, or takes its time: setting mode = "asks" | "sleeps" | "grows" | "settles".
#include <chrono>
#include <thread>

#include "ferrite/plugin.hpp"

namespace {

using namespace ferrite;

/// Reads the graph until the host refuses.
bool ask(Graph& graph) {
  for (;;) static_cast<void>(graph.nodes());
}
/// Takes longer than it may without calling the host, after an edit.
bool sleep(Graph& graph) {
  graph.make("neg", {graph.inputs()[0]});
  std::this_thread::sleep_for(std::chrono::milliseconds(60));
  return true;
}
/// Always finds something to change.
bool grow(Graph& graph) {
  graph.make("neg", {graph.inputs()[0]});
  return true;
}
/// Changes something until there are four nodes.
bool settle(Graph& graph) { return graph.nodes().size() < 4 && grow(graph); }

void add_pass(PluginBuilder& builder, const PluginContext& context) {
  const auto mode = context.config.string("mode");
  builder.add(pass("pre_grad", "test.slow.pass",
                   mode == "asks"     ? ask
                   : mode == "sleeps" ? sleep
                   : mode == "grows"  ? grow
                                      : settle));
}

}  // namespace

FERRITE_PLUGIN("test.slow", "1.0.0", add_pass)
