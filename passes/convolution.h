// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the passes that change a convolution's weights share.
#pragma once

#include "passes.h"

namespace ferrite::passes {

/// Whether x is a constant, or comes from constants through at most `depth` nodes.
inline bool is_constant_expression(Value x, int depth = 8) {
  if (x.is_constant()) return true;
  Node node = x.producer();
  if (!node || depth == 0 || (node.view().flags & (FE_OP_RANDOM | FE_OP_EFFECT))) return false;
  for (size_t k = 0; k < node.operand_count(); ++k)
    if (Value operand = node.operand(k); operand && !is_constant_expression(operand, depth - 1)) return false;
  return true;
}

/// The convolution that makes x, where nobody else reads x and its weights and bias are constants of f32 or
/// f64; else none.
inline Node constant_convolution(Value x) {
  Node conv = x.producer();
  if (!conv || conv.op() != "conv" || x.use_count() != 1) return {};
  if (x.dtype() != f32 && x.dtype() != f64) return {};
  for (size_t k = 1; k < conv.operand_count(); ++k)
    if (Value operand = conv.operand(k); operand && !is_constant_expression(operand)) return {};
  return conv;
}

/// A convolution whose result is scale * r + shift, r being that of `conv`; scale and shift, where given,
/// hold one number a channel. The new weights are constant expressions, which fold_constants or the load
/// evaluates.
inline Value rescale(Graph& g, Node conv, Value scale, Value shift) {
  Value weight = conv.operand(1), bias = conv.operand(2);
  if (scale) {
    Dims shape(weight.rank(), 1);
    shape[0] = weight.dims()[0];
    weight = g.make("mul", {weight, g.make("reshape", {scale}, {attr("shape", shape)})});
    if (bias) bias = g.make("mul", {bias, scale});
  }
  if (shift) bias = bias ? g.make("add", {bias, shift}) : shift;
  std::vector<Value> operands{conv.operand(0), weight};
  if (bias) operands.push_back(bias);
  return g.make("conv", operands, conv.attrs().copy());
}

}  // namespace ferrite::passes
