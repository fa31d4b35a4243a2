// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <array>
#include <cmath>

#include "convolution.h"

namespace ferrite::passes {
namespace {

/// The batch norm as one scale and one shift per channel, computed in the order of its decomposition.
template <class T>
Value fold(Graph& graph, Node norm, Node conv) {
  const auto scale = numbers<T>(norm.operand(1)), bias = numbers<T>(norm.operand(2)),
             mean = numbers<T>(norm.operand(3)), variance = numbers<T>(norm.operand(4));
  if (!scale || !bias || !mean || !variance) return {};
  const T epsilon = static_cast<T>(norm.attrs().number("epsilon"));
  std::vector<T> scales(*scale), shifts(*bias);
  for (size_t c = 0; c < scales.size(); ++c) {
    scales[c] = scales[c] / std::sqrt((*variance)[c] + epsilon);
    const T moved = (*mean)[c] * scales[c];
    shifts[c] = shifts[c] - moved;
  }
  return fold_affine<T>(graph, conv, &scales, &shifts);
}

}  // namespace

bool fold_batch_norm(Graph& graph) {
  bool changed = false;
  for (Node norm : graph.nodes()) {
    if (norm.op() != "batch_norm") continue;
    const Value x = norm.operand(0);
    Node conv = constant_convolution(x);
    bool same = bool(conv);
    for (size_t k = 1; k < 5 && same; ++k) same = norm.operand(k).dtype() == x.dtype();
    if (!same) continue;
    graph.set_insertion(norm, std::array{conv, norm});
    const Value result = x.dtype() == f32 ? fold<float>(graph, norm, conv) : fold<double>(graph, norm, conv);
    if (!result) continue;
    graph.replace_uses(norm.result(), result);
    graph.erase(norm);
    graph.erase(conv);
    changed = true;
  }
  return changed;
}

}  // namespace ferrite::passes
