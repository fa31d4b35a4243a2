// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "passes.h"

namespace ferrite::passes {
namespace {

constexpr uint64_t most_operand_bytes = 1 << 20;  // larger operands are not evaluated at compile time
constexpr int64_t most_spread_bytes = 1 << 10;    // a larger repetition is cheaper as an index map

bool worth_folding(Node node) {
  auto view = node.view();
  if (view.flags & (FE_OP_RANDOM | FE_OP_EFFECT)) return false;
  int64_t operand_bytes = 0;
  for (size_t k = 0; k < node.operand_count(); ++k) {
    Value operand = node.operand(k);
    if (!operand) continue;
    auto constant = operand.view();
    if (!operand.is_constant() || constant.data_bytes > most_operand_bytes) return false;
    operand_bytes += static_cast<int64_t>(constant.data_bytes);
  }
  for (size_t k = 0; k < node.result_count(); ++k) {
    auto type = node.result(k).type();
    for (int64_t dim : type.dims)
      if (dim < 0) return false;
    int64_t bytes = bytes_of(type.dtype, type.elements());
    if (bytes > operand_bytes && bytes > most_spread_bytes) return false;
  }
  return true;
}

}  // namespace

bool fold_constants(Graph& graph) {
  bool changed = false;
  // Visit nodes in topological order, so that folded operands are seen as constants.
  for (Node node : graph.nodes()) {
    if (!worth_folding(node)) continue;
    bool all = true;
    for (size_t k = 0; k < node.result_count(); ++k) {
      Value result = node.result(k);
      auto constant = graph.evaluate(result);
      if (constant)
        graph.replace_uses(result, *constant);
      else
        all = false;
      changed = changed || constant;
    }
    if (all) graph.erase(node);
  }
  return changed;
}

}  // namespace ferrite::passes
