// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <array>

#include "convolution.h"

namespace ferrite::passes {

bool fold_batch_norm(Graph& graph) {
  bool changed = false;
  for (Node norm : graph.nodes()) {
    if (norm.op() != "batch_norm") continue;
    Value x = norm.operand(0);
    Node conv = constant_convolution(x);
    bool constant = bool(conv);
    for (size_t k = 1; k < 5 && constant; ++k)
      constant = is_constant_expression(norm.operand(k)) && norm.operand(k).dtype() == x.dtype();
    if (!constant) continue;
    graph.set_insertion(norm, std::array{conv, norm});
    Value epsilon = graph.scalar(x.dtype(), norm.attrs().number("epsilon"));
    Value deviation = graph.make("sqrt", {graph.make("add", {norm.operand(4), epsilon})});
    Value scale = graph.make("div", {norm.operand(1), deviation});
    Value shift = graph.make("sub", {norm.operand(2), graph.make("mul", {norm.operand(3), scale})});
    graph.replace_uses(norm.result(), rescale(graph, conv, scale, shift));
    graph.erase(norm);
    graph.erase(conv);
    changed = true;
  }
  return changed;
}

}  // namespace ferrite::passes
