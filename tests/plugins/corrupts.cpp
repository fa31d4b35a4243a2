// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Passes that break the graph, one at a time: setting mode = "erase" | "order" | "type" | "stale" | "pair".
#include "ferrite/plugin.hpp"

namespace {

using namespace ferrite;

Node first_of(Graph& graph, std::string_view op) {
  for (Node node : graph.nodes())
    if (node.op() == op) return node;
  fail("test.corrupts/model", "the model has no ", op);
}

/// A node that others still read.
bool erase_used(Graph& graph) {
  graph.erase(first_of(graph, "relu"));
  return true;
}
/// An operand that is made behind its reader.
bool use_before_definition(Graph& graph) {
  Node relu = first_of(graph, "relu");
  Value late = graph.make("neg", {relu.result()});
  graph.set_operand(relu, 0, late);
  return true;
}
/// An operand of a dtype that the op's type rule refuses.
bool wrong_type(Graph& graph) {
  Node add = first_of(graph, "add");
  Value other = graph.make("cast", {add.operand(0)}, {attr("dtype", i64)});
  graph.set_operand(add, 0, other);
  return true;
}
/// A handle of something that is gone.
bool stale(Graph& graph) {
  Node relu = first_of(graph, "relu");
  graph.set_insertion(relu);
  Node made = graph.make("neg", {relu.operand(0)}).producer();
  Value result = made.result();
  graph.erase(made);
  graph.set_operand(relu, 0, result);
  return true;
}

void add_pass(PluginBuilder& builder, const PluginContext& context) {
  auto mode = context.config.string("mode");
  if (mode == "pair") {
    builder.add(loop_pass("test.corrupts.pass", [](const fe_loop_api& api) {
      auto args = sized<fe_pair_args>();
      args.a = 0;
      args.b = 1000;
      auto out = sized<fe_none>();
      call_host(api, api.force_fusion, args, out);
      return true;
    }));
    return;
  }
  auto function = mode == "erase"   ? erase_used
                  : mode == "order" ? use_before_definition
                  : mode == "type"  ? wrong_type
                                    : stale;
  builder.add(pass("pre_grad", "test.corrupts.pass", function));
}

}  // namespace

FERRITE_PLUGIN("test.corrupts", "1.0.0", add_pass)
