// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Matrix products.
#include "helpers.h"

namespace ferrite::from_onnx {
namespace {

void matmul(Context& c) { c.give(c.make("matmul", {c.operand(0), c.operand(1)})); }

void gemm(Context& c) {
  std::vector<Value> operands{c.operand(0), c.operand(1)};
  if (c.has(2)) operands.push_back(c.operand(2));
  if (c.opset < 11 && !c.has(2)) c.bad("input 2 is missing");
  c.give(c.graph.make("gemm", operands,
                      {attr("alpha", c.number("alpha", 1.0)), attr("beta", c.number("beta", 1.0)),
                       attr("trans_a", c.flag("transA", false)), attr("trans_b", c.flag("transB", false))}));
}

void matmul_integer(Context& c) {
  c.give(c.graph.make("matmul_integer",
                      std::vector<Value>{c.operand(0), c.operand(1), c.optional(2), c.optional(3)}));
}

void einsum(Context& c) {
  std::vector<Value> operands;
  for (size_t k = 0; k < c.operand_count(); ++k) operands.push_back(c.operand(k));
  auto equation = c.text("equation", "");
  if (equation.empty()) c.bad("attribute 'equation' is missing");
  c.give(c.graph.make("einsum", operands, {attr("equation", equation)}));
}

constexpr OpEntry contract_entries[] = {
    {"MatMul", 1, newest, matmul},
    {"Gemm", 7, newest, gemm},
    {"MatMulInteger", 10, newest, matmul_integer},
    {"Einsum", 12, newest, einsum},
};

}  // namespace

std::span<const OpEntry> contract_ops() { return contract_entries; }

}  // namespace ferrite::from_onnx
