// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A pass that edits the graph and then throws, and one behind it that folds constants.
#include <stdexcept>

#include "double_negation.h"

namespace {

bool edit_and_throw(ferrite::Graph& graph) {
  ferrite::test_plugins::double_negation(graph);
  // What it folds dies with the roll-back and must not be found by those who fold after it.
  for (ferrite::Node node : graph.nodes()) graph.evaluate(node.result());
  throw std::runtime_error("thrown on purpose");
}

bool fold(ferrite::Graph& graph) {
  bool changed = false;
  for (ferrite::Node node : graph.nodes())
    if (auto constant = graph.evaluate(node.result())) {
      graph.replace_uses(node.result(), *constant);
      changed = true;
    }
  return changed;
}

}  // namespace

FERRITE_PLUGIN("test.throws", "1.0.0", ferrite::pass("pre_grad", "test.throws.pass", edit_and_throw),
               ferrite::pass("pre_grad", "test.throws.fold", fold).run_after("test.throws.pass"))
