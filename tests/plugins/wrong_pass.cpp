// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A pass that leaves valid graphs and wrong numbers: it turns x / y into x * y; with the setting `once`, of the first graph only
// that it gets.
#include "ferrite/plugin.hpp"

namespace {

using namespace ferrite;

bool divide_by_multiplying(Graph& graph) {
  bool changed = false;
  for (Node node : graph.nodes()) {
    if (node.op() != "div") continue;
    graph.set_insertion(node);
    graph.replace_uses(node.result(0), graph.make("mul", {node.operand(0), node.operand(1)}));
    graph.erase(node);
    changed = true;
  }
  return changed;
}

void add_passes(PluginBuilder& builder, const PluginContext& context) {
  const bool once = context.config.has("once");
  builder.add(pass("pre_grad", "test.divide_by_multiplying", [once, done = false](Graph& graph) mutable {
    if (once && done) return false;
    done = true;
    return divide_by_multiplying(graph);
  }));
}

}  // namespace

FERRITE_PLUGIN("test.wrong_pass", "1.0.0", add_passes)
