// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <array>

#include "convolution.h"

namespace ferrite::passes {
namespace {

/// The constant as one number for each of the channels (dim 1) of `result`, or none where it is not that.
Value per_channel(Graph& g, Value constant, const TensorType& result) {
  auto type = constant.type();
  if (!is_constant_expression(constant) || type.dtype != result.dtype || type.rank() > result.rank())
    return {};
  int64_t channels = result.dims[1];
  size_t missing = result.rank() - type.rank();
  for (size_t d = 0; d < type.rank(); ++d) {
    bool channel = d + missing == 1;
    if (type.dims[d] != 1 && !(channel && type.dims[d] == channels)) return {};
  }
  Value flat = g.make("reshape", {constant}, {attr("shape", Dims{type.elements()})});
  return type.elements() == channels ? flat : g.make("expand", {flat}, {attr("shape", Dims{channels})});
}

}  // namespace

bool fold_channel_affine(Graph& graph) {
  bool changed = false;
  for (Node node : graph.nodes()) {
    auto op = node.op();
    if (op != "mul" && op != "add") continue;
    for (size_t k = 0; k < 2; ++k) {
      Value x = node.operand(k), other = node.operand(1 - k);
      Node conv = constant_convolution(x);
      if (!conv || x.type() != node.result().type()) continue;
      graph.set_insertion(node, std::array{conv, node});
      Value channels = per_channel(graph, other, x.type());
      if (!channels) continue;
      Value result =
          op == "mul" ? rescale(graph, conv, channels, Value()) : rescale(graph, conv, Value(), channels);
      graph.replace_uses(node.result(), result);
      graph.erase(node);
      graph.erase(conv);
      changed = true;
      break;
    }
  }
  return changed;
}

}  // namespace ferrite::passes
