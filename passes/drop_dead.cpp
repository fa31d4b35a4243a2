// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "passes.h"

namespace ferrite::passes {

bool drop_dead(Graph& graph) {
  bool changed = false;
  auto nodes = graph.nodes();
  // Go backwards: when a node is visited, dead nodes that read it are gone already.
  for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {
    bool used = (node->view().flags & FE_OP_EFFECT) != 0;
    for (size_t k = 0; k < node->result_count(); ++k) used = used || node->result(k).use_count() > 0;
    if (used) continue;
    graph.erase(*node);
    changed = true;
  }
  return changed;
}

}  // namespace ferrite::passes
