// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// softmax with one division per row instead of one per element: exp(x - max) * (1 / sum). For f32 only; if it
// declines, the op's own decomposition applies.
#include <ferrite/plugin.hpp>

namespace {

using namespace ferrite;

std::vector<Value> softmax(Graph& graph, const Instance& op, std::span<const Value> operands) {
  if (op.operand(0).dtype != f32) decline("written for f32");
  const Value x = operands[0];
  const int64_t axis = op.attrs.integer("axis"), rank = static_cast<int64_t>(x.rank());
  const std::vector<Attr> along = {attr("axes", Dims{axis < 0 ? axis + rank : axis}), attr("keepdims", true)};
  const Value greatest = graph.make("reduce_max", std::vector{x}, along);
  const Value powers = graph.make("exp", {graph.make("sub", {x, greatest})});
  const Value sum = graph.make("reduce_sum", std::vector{powers}, along);
  return {graph.make("mul", {powers, graph.make("reciprocal", {sum})})};
}

}  // namespace

FERRITE_PLUGIN("acme.decomposition", "1.0.0", decomposition("softmax", softmax))
