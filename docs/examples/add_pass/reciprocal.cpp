// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Divides by multiplying, where that gives the same bits.
#include <ferrite/plugin.hpp>

#include <cmath>

namespace {

using namespace ferrite;

/// 1 / c where c is a power of two whose reciprocal is an ordinary float; else none.
std::optional<double> exact_reciprocal(Value constant) {
  if (!constant.is_constant() || constant.dtype() != f32 || constant.type().elements() != 1)
    return std::nullopt;
  int exponent = 0;
  const float c = constant.elements<float>()[0];
  if (!std::isnormal(c) || std::abs(std::frexp(c, &exponent)) != 0.5f || !std::isnormal(1 / c))
    return std::nullopt;
  return 1.0 / c;
}

/// Turn x / c into x * (1 / c) where c is a power of two: both round the same quotient.
bool multiply_by_reciprocal(Graph& graph) {
  bool changed = false;
  for (Node node : graph.nodes()) {
    if (node.op() != "div" || node.operand(1).rank() != 0) continue;
    auto factor = exact_reciprocal(node.operand(1));
    if (!factor) continue;
    graph.set_insertion(node);
    Value product = graph.make("mul", {node.operand(0), graph.scalar(f32, *factor)});
    graph.replace_uses(node.result(), product);
    graph.erase(node);
    changed = true;
  }
  return changed;
}

}  // namespace

FERRITE_PLUGIN("acme.faster", "1.0.0", pass("post_grad_post", "acme.reciprocal", multiply_by_reciprocal))
