// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <ferrite/plugin.hpp>

using namespace ferrite;

namespace {

bool is_number(Value value, float number) {
  return value && value.is_constant() && value.dtype() == f32 && value.type().elements() == 1 &&
         value.elements<float>()[0] == number;
}

/// Turn x * clamp(x + 3, 0, 6) / 6 into hardswish(x).
bool fuse_hard_swish(Graph& graph) {
  bool changed = false;
  for (Node div : graph.nodes()) {
    if (div.op() != "div" || !is_number(div.operand(1), 6)) continue;
    Node mul = div.operand(0).producer();
    for (size_t k = 0; mul && mul.op() == "mul" && k < 2; ++k) {
      Value x = mul.operand(k);
      Node clamp = mul.operand(1 - k).producer();
      if (!clamp || clamp.op() != "clamp") continue;
      Node add = clamp.operand(0).producer();
      if (!is_number(clamp.operand(1), 0) || !is_number(clamp.operand(2), 6)) continue;
      if (!add || add.op() != "add" || add.operand(0) != x || !is_number(add.operand(1), 3)) continue;
      graph.set_insertion(div);
      graph.replace_uses(div.result(), graph.make("hardswish", {x}));
      changed = true;
    }
  }
  return changed;
}

}  // namespace

FERRITE_PLUGIN("acme.faster", "0.1.0", pass("post_grad_pre", "acme.hard_swish", fuse_hard_swish))
