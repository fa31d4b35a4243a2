// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <array>

#include "convolution.h"

namespace ferrite::passes {
namespace {

/// The constant as one number per channel (dim 1) of `result`, or none if it has another form.
template <class T>
std::optional<std::vector<T>> per_channel(Value constant, const TensorType& result) {
  const auto type = constant.type();
  if (type.dtype != result.dtype || type.rank() > result.rank()) return std::nullopt;
  const int64_t channels = result.dims[1];
  const size_t missing = result.rank() - type.rank();
  for (size_t d = 0; d < type.rank(); ++d) {
    const bool channel = d + missing == 1;
    if (type.dims[d] != 1 && !(channel && type.dims[d] == channels)) return std::nullopt;
  }
  auto list = numbers<T>(constant);
  if (list && list->size() == 1) list->resize(static_cast<size_t>(channels), list->front());
  return list;
}

template <class T>
Value fold(Graph& graph, Node node, Node conv, Value constant) {
  const auto list = per_channel<T>(constant, node.result().type());
  if (!list) return {};
  return node.op() == "mul" ? fold_affine<T>(graph, conv, &*list, nullptr)
                            : fold_affine<T>(graph, conv, nullptr, &*list);
}

}  // namespace

bool fold_channel_affine(Graph& graph) {
  bool changed = false;
  for (Node node : graph.nodes()) {
    const auto op = node.op();
    if (op != "mul" && op != "add") continue;
    for (size_t k = 0; k < 2; ++k) {
      const Value x = node.operand(k), other = node.operand(1 - k);
      Node conv = constant_convolution(x);
      if (!conv || x.type() != node.result().type()) continue;
      graph.set_insertion(node, std::array{conv, node});
      const Value result =
          x.dtype() == f32 ? fold<float>(graph, node, conv, other) : fold<double>(graph, node, conv, other);
      if (!result) continue;
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
