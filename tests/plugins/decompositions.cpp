// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Decompositions for ops of the standard plugin: relu's is taken in place of its lowering, softmax's builds something and then
// declines, that of abs gives a value of another type.
#include "ferrite/plugin.hpp"

namespace {

using namespace ferrite;
using Operands = std::span<const Value>;

std::vector<Value> make_relu(Graph& graph, const Instance&, Operands x) {
  return {graph.make("maximum", {x[0], graph.scalar(f32, 0)})};
}
std::vector<Value> make_softmax(Graph& graph, const Instance&, Operands x) {
  graph.make("exp", {x[0]});
  decline("only for practice");
}
std::vector<Value> make_abs(Graph& graph, const Instance&, Operands x) {
  return {graph.make("cast", {x[0]}, {attr("dtype", f64)})};
}

}  // namespace

FERRITE_PLUGIN("test.decompositions", "1.0.0", decomposition("relu", make_relu),
               decomposition("softmax", make_softmax), decomposition("abs", make_abs))
