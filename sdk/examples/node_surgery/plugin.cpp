// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Merges several products of one value with constant matrices, such as x Q, x K, x V in attention, into a
// single product with the concatenated matrices, and slices of its result. Each edit is one line: make,
// replace uses, erase.
#include <ferrite/plugin.hpp>

#include <map>

namespace {

using namespace ferrite;

bool has_constant_matrix(Node node) {
  return node.op() == "matmul" && node.operand(1).is_constant() && node.operand(1).rank() == 2 &&
         node.operand(0).rank() >= 2;
}

void merge(Graph& graph, const std::vector<Node>& products) {
  const Value x = products[0].operand(0);
  std::vector<Value> matrices;
  for (Node product : products) matrices.push_back(product.operand(1));
  graph.set_insertion(products[0], products);
  const Value side_by_side = graph.make("concat", matrices, std::vector{attr("axis", 1)});
  const Value wide = graph.make("matmul", {x, side_by_side});
  Dims starts(wide.rank(), 0);
  for (Node product : products) {
    graph.set_insertion(product);
    const Dims sizes = product.result().dims();
    const Value part =
        graph.make("slice", {wide},
                   {attr("starts", starts), attr("sizes", sizes), attr("strides", Dims(sizes.size(), 1))});
    starts.back() += sizes.back();
    graph.replace_uses(product.result(), part);
    graph.erase(product);
  }
}

bool merge_products(Graph& graph) {
  // Grouped by shared value and dtype. Nodes are visited in order, so the first one of a group precedes the
  // others.
  std::map<fe_value, std::vector<Node>> by_operand;
  for (Node node : graph.nodes())
    if (has_constant_matrix(node)) by_operand[node.operand(0).handle()].push_back(node);
  bool changed = false;
  for (const auto& [operand, products] : by_operand)
    if (products.size() > 1) {
      merge(graph, products);
      changed = true;
    }
  return changed;
}

}  // namespace

FERRITE_PLUGIN("acme.node_surgery", "1.0.0", pass("post_grad_pre", "acme.merge_products", merge_products))
