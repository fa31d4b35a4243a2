// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// @ID@: a pass over the graph.
#include <ferrite/plugin.hpp>

namespace {

using namespace ferrite;

/// Turn reciprocal(sqrt(x)) into rsqrt(x), if the square root has no other use.
bool fuse_rsqrt(Graph& graph) {
  bool changed = false;
  for (Node node : graph.nodes()) {
    if (node.op() != "reciprocal") continue;
    Node root = node.operand(0).producer();
    if (!root || root.op() != "sqrt" || root.result().use_count() != 1) continue;
    graph.set_insertion(node);
    graph.replace_uses(node.result(), graph.make("rsqrt", {root.operand(0)}));
    graph.erase(node);
    graph.erase(root);
    changed = true;
  }
  return changed;
}

}  // namespace

FERRITE_PLUGIN("@ID@", "0.1.0", pass("post_grad_pre", "@ID@.rsqrt", fuse_rsqrt))
