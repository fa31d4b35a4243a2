// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Chains of views of one op. Each function returns the value that replaces the node, or none.
#include "passes.h"

namespace ferrite::passes {
namespace {

Dims list(Node node, std::string_view name) {
  auto numbers = node.attrs().integers(name);
  return {numbers.begin(), numbers.end()};
}
/// The node that produces x if it is of this op, else none.
Node producer_of(Value x, std::string_view op) {
  Node node = x.producer();
  return node && node.op() == op ? node : Node();
}

/// Turns reshape(reshape(x)) into one reshape of x, or into x if that has the dims already.
Value compose_reshape(Graph& g, Node node) {
  Node inner = producer_of(node.operand(0), "reshape");
  if (!inner) return {};
  Value x = inner.operand(0);
  return x.dims() == list(node, "shape") ? x : g.make("reshape", {x}, {attr("shape", list(node, "shape"))});
}

/// Turns transpose(transpose(x)) into one transpose of x, and one that permutes nothing into x.
Value compose_transpose(Graph& g, Node node) {
  auto perm = list(node, "perm");
  Value x = node.operand(0);
  if (Node inner = producer_of(x, "transpose")) {
    auto first = list(inner, "perm");
    for (auto& p : perm) p = first[static_cast<size_t>(p)];
    x = inner.operand(0);
  }
  if (std::is_sorted(perm.begin(), perm.end())) return x;
  return x == node.operand(0) ? Value() : g.make("transpose", {x}, {attr("perm", perm)});
}

/// Turns expand(expand(x)) into one expand of x.
Value compose_expand(Graph& g, Node node) {
  Node inner = producer_of(node.operand(0), "expand");
  if (!inner) return {};
  return g.make("expand", {inner.operand(0)}, {attr("shape", list(node, "shape"))});
}

/// Turns slice(slice(x)) into one slice of x, and a slice of all of x in order into x.
Value compose_slice(Graph& g, Node node) {
  Value x = node.operand(0);
  auto starts = list(node, "starts"), sizes = list(node, "sizes"), strides = list(node, "strides");
  if (Node inner = producer_of(x, "slice")) {
    auto first = list(inner, "starts"), steps = list(inner, "strides");
    for (size_t d = 0; d < starts.size(); ++d) {
      // An empty dim reads nothing, so any valid start will do.
      starts[d] = sizes[d] > 0 ? first[d] + starts[d] * steps[d] : 0;
      strides[d] *= steps[d];
    }
    x = inner.operand(0);
  }
  auto dims = x.dims();
  bool whole = dims == sizes;
  for (size_t d = 0; d < starts.size(); ++d)
    whole = whole && starts[d] == 0 && (strides[d] == 1 || sizes[d] <= 1);
  if (whole) return x;
  if (x == node.operand(0)) return {};
  return g.make("slice", {x}, {attr("starts", starts), attr("sizes", sizes), attr("strides", strides)});
}

}  // namespace

bool compose_views(Graph& graph) {
  bool changed = false;
  for (Node node : graph.nodes()) {
    auto op = node.op();
    if (op != "reshape" && op != "transpose" && op != "expand" && op != "slice") continue;
    graph.set_insertion(node);
    Value x = node.operand(0), result;
    bool same = (op == "reshape" || op == "expand") && x.type() == node.result().type();
    if (same)
      result = x;
    else if (op == "reshape")
      result = compose_reshape(graph, node);
    else if (op == "transpose")
      result = compose_transpose(graph, node);
    else if (op == "expand")
      result = compose_expand(graph, node);
    else
      result = compose_slice(graph, node);
    if (!result) continue;
    graph.replace_uses(node.result(), result);
    graph.erase(node);
    changed = true;
  }
  return changed;
}

}  // namespace ferrite::passes
