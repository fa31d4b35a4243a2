// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A product of scaled operands is the scaled product. PyTorch's attention multiplies queries and keys by the
// root of the scale, in f32 even where they are bf16; without the factors, the product is one of bf16
// numbers, for which devices have instructions.
#include <cstring>
#include <vector>

#include "passes.h"

namespace ferrite::passes {
namespace {

constexpr size_t longest_way = 8;

bool is_view(Node node) {
  return node.op() == "transpose" || node.op() == "reshape" || node.op() == "expand";
}

/// Whether the elements are those of a narrower float, widened.
bool is_widened(Value x) {
  const Node node = x.producer();
  return node && node.op() == "cast" && is_float(node.operand(0).dtype()) &&
         bits_of(node.operand(0).dtype()) < bits_of(x.dtype());
}

/// The number that a constant of one element holds.
bool is_factor(Value x, float& factor) {
  if (!x.is_constant() || x.dtype() != DType::f32_ || x.type().elements() != 1) return false;
  const auto view = x.view();
  if (!view.data || view.data_bytes != sizeof factor) return false;
  std::memcpy(&factor, view.data, sizeof factor);
  return true;
}

/// An operand of a product: views of widened floats, maybe with a factor.
struct Operand {
  std::vector<Node> views;  ///< first the last one
  Value base;               ///< none: it is something else
  float factor = 1;
};

Operand operand_of(Value x) {
  Operand found;
  for (size_t step = 0; step < longest_way; ++step) {
    const Node node = x.producer();
    if (!node) return {};
    if (is_widened(x)) {
      found.base = x;
      return found;
    }
    if (is_view(node)) {
      found.views.push_back(node);
      x = node.operand(0);
      continue;
    }
    float factor = 1;
    if (node.op() != "mul") return {};
    const size_t scaled = is_factor(node.operand(1), factor) ? 0 : 1;
    if (scaled == 1 && !is_factor(node.operand(0), factor)) return {};
    // A factor with more dims than the operand is also a view of it.
    if (node.operand(scaled).dims() != x.dims()) return {};
    found.factor *= factor;
    x = node.operand(scaled);
  }
  return {};
}

Value rebuilt(Graph& graph, const Operand& operand) {
  Value x = operand.base;
  for (size_t k = operand.views.size(); k-- > 0;)
    x = graph.make(operand.views[k].op(), {x}, operand.views[k].attrs().copy());
  return x;
}

}  // namespace

bool unscale_products(Graph& graph) {
  bool changed = false;
  for (const Node product : graph.nodes()) {
    if (product.op() != "matmul" || product.result().dtype() != DType::f32_) continue;
    const auto a = operand_of(product.operand(0)), b = operand_of(product.operand(1));
    if (!a.base || !b.base || (a.factor == 1 && b.factor == 1)) continue;
    graph.set_insertion(product);
    const Value plain = graph.make("matmul", {rebuilt(graph, a), rebuilt(graph, b)}, product.attrs().copy());
    const Value scaled = graph.make("mul", {plain, graph.scalar(DType::f32_, a.factor * b.factor)});
    graph.replace_uses(product.result(), scaled);
    graph.erase(product);
    changed = true;
  }
  return changed;
}

}  // namespace ferrite::passes
