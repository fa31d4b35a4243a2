// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Distances of tensors, and of the rows of two matrices.
#include <cmath>

#include "helpers.h"

namespace ferrite::from_torch {
namespace {

/// The norm of the difference.
void distance(Context& c) {
  const DType dtype = c.result().dtype, wide = accumulated(dtype);
  const Value off = binary(c, "sub", c.operand("self", wide), c.operand("other", wide));
  const Value norm = norm_over(c, off, c.number("p", 2), dim_range(0, off.rank()), false);
  c.give(cast_to(c, norm, dtype));
}

/// With a dim of size 1 before the last `last` dims.
Value with_dim(Context& c, Value x, size_t last) {
  Dims dims = x.dims();
  dims.insert(dims.end() - static_cast<std::ptrdiff_t>(last), 1);
  return reshape_to(c, x, dims);
}
/// Each row of x1 less each of x2: [..., rows of x1, rows of x2, size of a row].
Value differences(Context& c, DType dtype) {
  return binary(c, "sub", with_dim(c, c.operand("x1", dtype), 1), with_dim(c, c.operand("x2", dtype), 2));
}

void row_distances(Context& c) {
  const auto& result = c.result();
  c.argument("compute_mode");  // how the same numbers are computed
  const double p = c.number("p");
  const Value off = differences(c, accumulated(result.dtype));
  if (product(off.dims()) == 0) return c.give(full(c, result, 0));
  const Value norm = norm_over(c, off, p, {static_cast<int64_t>(off.rank()) - 1}, false);
  c.give(cast_to(c, norm, result.dtype));
}
/// By x1: for each of its rows the sum over the rows of x2.
void row_distances_backward(Context& c) {
  const auto& result = c.result();
  const DType wide = accumulated(result.dtype);
  const double p = c.number("p");
  const Value off = differences(c, wide), size = unary(c, "abs", off);
  const Value g = with_dim(c, c.operand("grad_output", wide), 0),
              norm = with_dim(c, c.operand("cdist", wide), 0);
  if (p == 0 || product(off.dims()) == 0) return c.give(full(c, result, 0));
  const Value sign = unary(c, "sign", off);
  Value slope = sign;
  if (std::isinf(p))
    slope = binary(c, "mul", sign, cast_to(c, binary(c, "eq", size, norm), wide));
  else if (p == 2)
    slope = binary(c, "div", off, norm);
  else if (p != 1)
    slope = binary(c, "mul", sign, binary(c, "pow", binary(c, "div", size, norm), p - 1));
  // Equal elements give no gradient, be their rows equal or not.
  slope = select(c, binary(c, "eq", off, 0), number_like(c, off, 0), slope);
  const Value all = binary(c, "mul", g, slope);
  const Value sum = reduce_over(c, "reduce_sum", all, {static_cast<int64_t>(all.rank()) - 2}, false);
  c.give(cast_to(c, sum, result.dtype));
}

constexpr OpEntry entries[] = {
    {"aten.dist.default", "self other p", distance},
    {"aten._cdist_forward.default", "x1 x2 p compute_mode", row_distances},
    {"aten._cdist_backward.default", "grad_output x1 x2 p cdist", row_distances_backward},
};

}  // namespace

std::span<const OpEntry> distance_ops() { return entries; }

}  // namespace ferrite::from_torch
