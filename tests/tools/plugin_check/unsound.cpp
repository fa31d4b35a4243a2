// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Passes that are wrong in one way each: one computes something else, one never settles, one gives another
// graph each time. A rule that is wrong, and an op whose decomposition is another one than its lowering.
#include "ferrite/plugin.hpp"

namespace {

using namespace ferrite;

/// Swaps the operands of subtractions.
bool swap_operands(Graph& graph) {
  bool changed = false;
  for (auto node : graph.nodes()) {
    if (node.op() != "sub" || node.operand(0).dims() != node.operand(1).dims()) continue;
    graph.set_insertion(node);
    graph.replace_uses(node.result(0), graph.make("sub", {node.operand(1), node.operand(0)}));
    graph.erase(node);
    changed = true;
  }
  return changed;
}

/// Puts one more negation pair behind the first output of a node each time.
bool grow(Graph& graph) {
  for (auto node : graph.nodes()) {
    if (node.op() != "relu" || !is_float(node.result(0).type().dtype)) continue;
    graph.set_insertion(node);
    auto before = graph.make("neg", {graph.make("neg", {node.operand(0)})});
    graph.replace_uses(node.result(0), graph.make("relu", {before}));
    graph.erase(node);
    return true;
  }
  return false;
}

/// Doubles a negation in some calls, by a sequence without a short period.
bool sometimes(Graph& graph) {
  static uint32_t state = 1;
  state = state * 1664525u + 1013904223u;
  return (state >> 16 & 1u) != 0 && grow(graph);
}

/// Not the absolute value for what is positive.
Rule negate_all() {
  auto x = any("x");
  return rule("check.unsound.abs").match(op("abs")(x)).yield(op("neg")(x));
}

}  // namespace

FERRITE_PLUGIN(
    "check.unsound", "1.0.0",
    op_def("check.twice")
        .operands("x")
        .shape(same_as(0))
        .samples({"ferrite graph 0\ngraph @sample(%x: f32[5]) -> (%0 \"y\") {\n  %0 = check.twice(%x)\n}\n"})
        .lower([](Lowering& l) { l.pointwise([](const std::vector<Val>& x) { return x[0] + x[0]; }); })
        .decompose([](Graph& graph, const Instance&, std::span<const Value> operands) {
          return std::vector{graph.make("mul", {operands[0], operands[0]})};
        }),
    pass("pre_grad", "check.unsound.swap", swap_operands), pass("pre_grad", "check.unsound.grow", grow),
    pass("pre_grad", "check.unsound.sometimes", sometimes), rules("pre_grad", negate_all))
