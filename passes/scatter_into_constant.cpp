// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A scatter into a constant with at most one update per line along its axis is a selection at each element.
// If the constant is zero, sums over such lines are sums of the updates.
#include <algorithm>
#include <array>
#include <cstring>

#include "passes.h"

namespace ferrite::passes {
namespace {

constexpr uint64_t most_compared_bytes = 1 << 20;

/// The number that all elements of x equal, as a scalar; none if this is not known.
Value fill_of(Graph& g, Value x) {
  const auto as_scalar = [&](Value one) {
    return one.rank() == 0 ? one : g.make("reshape", {one}, {attr("shape", Dims{})});
  };
  if (Node node = x.producer()) {
    if (node.op() == "full") return g.scalar(x.dtype(), node.attrs().number("value"));
    const bool repeats = node.op() == "expand" && node.operand(0).is_constant();
    return repeats && node.operand(0).type().elements() == 1 ? as_scalar(node.operand(0)) : Value();
  }
  const auto view = x.view();
  const auto bytes = bytes_of(x.dtype(), 1);
  // Skip elements of less than a byte, and elements that are not available.
  if (!x.is_constant() || !view.data || view.data_bytes > most_compared_bytes || view.data_bytes == 0 ||
      bytes_of(x.dtype(), 2) != 2 * bytes)
    return {};
  const auto* data = static_cast<const char*>(view.data);
  const auto all = view.data_bytes - static_cast<uint64_t>(bytes);
  if (std::memcmp(data, data + bytes, all) != 0) return {};
  return g.literal({x.dtype(), {}}, data);
}

/// The attributes of the op that replaces the scatter; none if it does not apply.
bool one_update_a_line(Node scatter, size_t& axis) {
  if (scatter.op() != "scatter_elements") return false;
  const auto reduction = scatter.attrs().string("reduction");
  if (reduction != "none" && reduction != "add") return false;
  const auto base = scatter.operand(0).dims(), indices = scatter.operand(1).dims();
  const auto given = scatter.attrs().integer("axis");
  axis = static_cast<size_t>(given < 0 ? given + static_cast<int64_t>(base.size()) : given);
  for (size_t d = 0; d < base.size(); ++d)
    if (base[d] < 0 || indices[d] != (d == axis ? 1 : base[d])) return false;
  return true;
}

/// Whether x is a constant whose elements are +0.
bool is_zero(Value x) {
  const auto view = x.view();
  if (!x.is_constant() || !view.data) return false;
  const auto* data = static_cast<const char*>(view.data);
  return std::all_of(data, data + view.data_bytes, [](char byte) { return byte == 0; });
}

/// A scatter into zeros, and the factor by which its elements are multiplied; the latter may be none.
struct Summand {
  Node scatter;
  Value factor;
};

Node scatter_into_zeros(Value x) {
  const Node node = x.producer();
  return node && node.op() == "scatter_into_constant" && is_zero(node.operand(2)) ? node : Node();
}

/// What a sum adds, if it is a scatter into zeros, or its product with a factor that is the same along the
/// axis of the scatter: the gradient of a cross entropy is such a product.
Summand summand_of(Value x) {
  if (Node scatter = scatter_into_zeros(x)) return {scatter, {}};
  Node product = x.producer();
  if (!product || product.op() != "mul") return {};
  for (size_t k = 0; k < 2; ++k) {
    Node scatter = scatter_into_zeros(product.operand(k));
    const Value factor = product.operand(1 - k);
    if (!scatter || scatter.result().rank() < factor.rank()) continue;
    const auto axis =
        scatter.attrs().integer("axis") + static_cast<int64_t>(factor.rank() - scatter.result().rank());
    if (axis < 0 || factor.dims()[static_cast<size_t>(axis)] == 1) return {scatter, factor};
  }
  return {};
}

/// Turn this: %s = scatter_into_constant(%i, %u, 0)  %m = mul(%s, %f)  %r = reduce_sum(%m)
/// into this: %a = add(0, %u)  %t = scatter_into_constant(%i, %a, 1)  %b = gather_elements(%t, %i)
///            %m = mul(%b, %f)  %r = reduce_sum(%m)
/// The sum is over the axis of the scatter, and maybe others; the product may be missing. Reading back a
/// scattered element gives the update, and an index out of range stays an error. Nothing else reads %t, so it
/// is computed at these places alone; it is filled with ones so that it is not merged with %s.
bool sum_updates(Graph& graph, Node sum) {
  if (sum.op() != "reduce_sum") return false;
  const auto [scatter, factor] = summand_of(sum.operand(0));
  if (!scatter) return false;
  const auto axis = scatter.attrs().integer("axis"), rank = static_cast<int64_t>(scatter.result().rank());
  const auto axes = sum.attrs().integers("axes");
  if (std::ranges::none_of(axes, [&](int64_t each) { return (each < 0 ? each + rank : each) == axis; }))
    return false;
  const Value indices = scatter.operand(0), zero = scatter.operand(2);
  graph.set_insertion(sum, std::array{scatter});  // an index error must name the scatter
  // -0 added to zeros becomes +0.
  const Value updates = graph.make("add", {zero, scatter.operand(1)});
  const Value put = graph.make("scatter_into_constant", {indices, updates, graph.scalar(zero.dtype(), 1)},
                               scatter.attrs().copy());
  Value back = graph.make("gather_elements", {put, indices}, {attr("axis", axis)});
  graph.set_insertion(sum);
  if (factor) back = graph.make("mul", {back, factor});
  const Value result = graph.make("reduce_sum", {back}, sum.attrs().copy());
  graph.replace_uses(sum.result(), result);
  graph.erase(sum);
  return true;
}

}  // namespace

bool scatter_into_constant(Graph& graph) {
  bool changed = false;
  for (Node node : graph.nodes()) {
    size_t axis = 0;
    if (!one_update_a_line(node, axis)) continue;
    graph.set_insertion(node);
    Value fill = fill_of(graph, node.operand(0));
    if (!fill) continue;
    Value updates = node.operand(2);
    if (node.attrs().string("reduction") == "add") updates = graph.make("add", {fill, updates});
    const auto size = node.operand(0).dims()[axis];
    Value result = graph.make("scatter_into_constant", {node.operand(1), updates, fill},
                              {attr("axis", static_cast<int64_t>(axis)), attr("size", size)});
    graph.replace_uses(node.result(), result);
    graph.erase(node);
    changed = true;
  }
  for (Node node : graph.nodes()) changed = sum_updates(graph, node) || changed;
  return changed;
}

}  // namespace ferrite::passes
