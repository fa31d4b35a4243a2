// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Does one forbidden thing in one callback: settings mode, and `in` = "pass" | "lowering" | "predicate" |
// "create".
//   exit, leave, abort, segfault, hang  the process does not survive them
//   keeps_table, thread, foreign      uses what it was lent late, elsewhere, or in another graph
//   endless_rules                     two rules that undo each other
//   endless_pass                      makes nodes until it is stopped
//   claims                            says that it changed something
//   wrong                             an edit after which the graph is valid and computes something else
//   fickle                            an edit now and then
#include <chrono>
#include <cstdlib>
#include <optional>
#include <thread>

#include "ferrite/plugin.hpp"

namespace {

using namespace ferrite;

/// Not what a sanitizer or an optimiser is to find.
__attribute__((no_sanitize("undefined"))) void write_to_nowhere() {
  volatile int* volatile nowhere = nullptr;
  *nowhere = 1;
}

void misbehave(std::string_view mode) {
  if (mode == "exit") std::exit(0);
  if (mode == "leave") std::_Exit(0);
  if (mode == "abort") std::abort();
  if (mode == "segfault") write_to_nowhere();
  while (mode == "hang") std::this_thread::sleep_for(std::chrono::seconds(1));
}

Node first_of(Graph& graph, std::string_view op) {
  for (Node node : graph.nodes())
    if (node.op() == op) return node;
  fail("test.adversarial/model", "the model has no ", op);
}

/// Returns before the call is refused or answered; the pass says that all is well.
bool view_elsewhere(Graph& graph) {
  std::thread([&] {
    try {
      graph.view();
    } catch (const Failure&) {  // NOLINT(bugprone-empty-catch): it is to go unseen
      // The pass hides it.
    }
  }).join();
  return false;
}

const fe_graph_api* kept_table = nullptr;
std::optional<fe_value> kept_value;

/// Uses a value of the graph that the pass saw before, where there was one.
bool use_foreign(Graph& graph) {
  Node relu = first_of(graph, "relu");
  if (!kept_value) {
    kept_value = relu.operand(0).handle();
    return false;
  }
  graph.set_operand(relu, 0, Value(&graph, *kept_value));
  return true;
}

bool make_for_ever(Graph& graph) {
  const Value x = graph.inputs()[0];
  for (;;) graph.make("neg", {x});
}

/// Keeps what the graph computes; in some calls, by a sequence without a short period.
bool negate_twice_now_and_then(Graph& graph) {
  static uint32_t state = 1;
  state = state * 1664525u + 1013904223u;
  for (Node node : graph.nodes()) {
    if ((state >> 16 & 1u) == 0 || node.operand_count() == 0 || node.operand(0).dtype() != f32) continue;
    graph.set_insertion(node);
    graph.set_operand(node, 0, graph.make("neg", {graph.make("neg", {node.operand(0)})}));
    return true;
  }
  return false;
}

bool subtract(Graph& graph) {
  Node add = first_of(graph, "add");
  graph.set_insertion(add);
  Value difference = graph.make("sub", {add.operand(0), add.operand(1)});
  graph.replace_uses(add.result(), difference);
  graph.erase(add);
  return true;
}

constexpr std::string_view endless_rules = R"(
rule test.adversarial.there at pre_grad {
  match { %r = add(%x, %y) }
  yield { %n = neg(%y)  %r = sub(%x, %n) }
}
rule test.adversarial.back at pre_grad {
  match { %n = neg(%y) once  %r = sub(%x, %n) }
  yield { %r = add(%x, %y) }
}
)";

void contribute(PluginBuilder& builder, const PluginContext& context) {
  const std::string mode(context.config.string("mode"));
  const std::string in(context.config.has("in") ? context.config.string("in") : "pass");
  const auto pass_of = [&](std::function<bool(Graph&)> run) {
    builder.add(pass("pre_grad", "test.adversarial.pass", std::move(run)));
  };
  if (mode == "keeps_table") {
    pass_of([](Graph& graph) {
      kept_table = &graph.api();
      return false;
    });
    builder.add(pass("pre_grad", "test.adversarial.second", [](Graph&) {
                  Graph late(kept_table);
                  late.view();
                  return false;
                }).run_after("test.adversarial.pass"));
  } else if (mode == "thread") {
    pass_of(view_elsewhere);
  } else if (mode == "foreign") {
    pass_of(use_foreign);
  } else if (mode == "wrong") {
    pass_of(subtract);
  } else if (mode == "fickle") {
    pass_of(negate_twice_now_and_then);
  } else if (mode == "claims") {
    pass_of([](Graph&) { return true; });
  } else if (mode == "endless_pass") {
    pass_of(make_for_ever);
  } else if (mode == "endless_rules") {
    builder.add(rule_text("adversarial.fe", std::string(endless_rules)));
  } else if (in == "create") {
    misbehave(mode);
  } else if (in == "lowering") {
    builder.add(lowering("relu", [mode](Lowering&) { misbehave(mode); }));
  } else if (in == "predicate") {
    const auto never = [mode](const Match&) {
      misbehave(mode);
      return false;
    };
    const Term x = any("x");
    builder.add(rules("pre_grad",
                      rule("test.adversarial.rule").match(op("relu")(x)).where(never).yield(op("abs")(x))));
  } else {
    pass_of([mode](Graph&) {
      misbehave(mode);
      return false;
    });
  }
}

}  // namespace

FERRITE_PLUGIN("test.adversarial", "1.0.0", contribute)
