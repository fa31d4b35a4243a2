// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A pass that does not come to an end, or takes its time: setting mode = "asks" | "sleeps" | "grows" | "settles"; or one of the
// fusion hooks that asks for ever: "asks_loops" | "asks_schedule".
#include <chrono>
#include <thread>

#include "ferrite/plugin.hpp"

namespace {

using namespace ferrite;

/// Reads the graph until the host refuses.
bool ask(Graph& graph) {
  for (;;) static_cast<void>(graph.nodes());
}
/// Likewise the statements, or the groups.
template <class Api>
bool ask_for_program(const Api& api) {
  const auto none = sized<fe_none>();
  auto program = sized<fe_program_view>();
  for (;;) call_host(api, api.program, none, program);
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
  if (mode == "asks_loops") return builder.add(loop_pass("test.slow.pass", ask_for_program<fe_loop_api>));
  if (mode == "asks_schedule")
    return builder.add(schedule_pass("test.slow.pass", ask_for_program<fe_schedule_api>));
  builder.add(pass("pre_grad", "test.slow.pass",
                   mode == "asks"     ? ask
                   : mode == "sleeps" ? sleep
                   : mode == "grows"  ? grow
                                      : settle));
}

}  // namespace

FERRITE_PLUGIN("test.slow", "1.0.0", add_pass)
