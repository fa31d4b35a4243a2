// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A scatter into a constant with at most one update per line along its axis is a selection at each element.
// If the constant is zero, sums over such lines are sums of the updates.
#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

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

constexpr size_t most_steps = 4;

/// A scatter into zeros, and the operations on its elements, first the last one.
struct Summand {
  Node scatter;
  std::vector<Node> steps;
};

bool is_scatter_into_zeros(Node node) {
  return node && node.op() == "scatter_into_constant" && is_zero(node.operand(2));
}

/// Whether x, which broadcasts with the result of the scatter, is the same along its axis.
bool is_same_along_axis(Node scatter, Value x) {
  const size_t rank = scatter.result().rank();
  if (x.rank() > rank) return false;
  const auto axis = scatter.attrs().integer("axis") - static_cast<int64_t>(rank - x.rank());
  return axis < 0 || x.dims()[static_cast<size_t>(axis)] == 1;
}

/// The operand of a sum, if it is a scatter into zeros, or that after casts of floats and products with
/// factors that are the same along the axis of the scatter: the gradient of a cross entropy is such a
/// product.
Summand summand_of(Value x, size_t most = most_steps) {
  Node node = x.producer();
  if (is_scatter_into_zeros(node)) return {node, {}};
  if (!node || most == 0) return {};
  const bool is_product = node.op() == "mul";
  if (!is_product && (node.op() != "cast" || !is_float(x.dtype()) || !is_float(node.operand(0).dtype())))
    return {};
  for (size_t k = 0; k < (is_product ? 2 : 1); ++k) {
    auto found = summand_of(node.operand(k), most - 1);
    if (!found.scatter || found.scatter.result().dims() != x.dims() ||
        (is_product && !is_same_along_axis(found.scatter, node.operand(1 - k))))
      continue;
    found.steps.insert(found.steps.begin(), node);
    return found;
  }
  return {};
}

/// The steps' results where `x` is what they get in place of the scatter.
Value after_steps(Graph& graph, const Summand& summand, Value x) {
  Value before = summand.scatter.result();
  for (size_t k = summand.steps.size(); k-- > 0;) {
    const Node step = summand.steps[k];
    x = step.op() == "cast" ? graph.make("cast", {x}, step.attrs().copy())
                            : graph.make("mul", {x, step.operand(step.operand(0) == before ? 1 : 0)});
    before = step.result();
  }
  return x;
}

/// Turn this: %s = scatter_into_constant(%i, %u, 0)  %m = mul(%s, %f)  %r = reduce_sum(%m)
/// into this: %a = add(0, %u)  %t = scatter_into_constant(%i, %a, 1)  %b = gather_elements(%t, %i)
///            %m = mul(%b, %f)  %r = reduce_sum(%m)
/// The sum is over the axis of the scatter, and maybe others; the product may be missing, and there may be
/// casts. Reading back a scattered element gives the update, and an index out of range stays an error.
/// Nothing else reads %t, so it is computed at these places alone; it is filled with ones so that it is not
/// merged with %s.
bool sum_updates(Graph& graph, Node sum) {
  if (sum.op() != "reduce_sum") return false;
  const auto summand = summand_of(sum.operand(0));
  const Node scatter = summand.scatter;
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
  back = after_steps(graph, summand, back);
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
