// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An edit that keeps every result: x becomes -(-x) before the first relu. Each pass that makes it leaves two nodes.
#pragma once

#include "ferrite/plugin.hpp"

namespace ferrite::test_plugins {

inline bool double_negation(Graph& graph) {
  for (Node node : graph.nodes()) {
    if (node.op() != "relu") continue;
    graph.set_insertion(node);
    Value once = graph.make("neg", {node.operand(0)});
    graph.set_operand(node, 0, graph.make("neg", {once}));
    return true;
  }
  return false;
}

}  // namespace ferrite::test_plugins
