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

/// Inserts a dim of size 1 before the last `last` dims.
Value with_dim(Context& c, Value x, size_t last) {
  need_rank(c, x.rank(), last);
  Dims dims = x.dims();
  dims.insert(dims.end() - static_cast<std::ptrdiff_t>(last), 1);
  return reshape_to(c, x, dims);
}
/// Each row of x1 less each of x2: [..., rows of x1, rows of x2, size of a row].
Value differences(Context& c, DType dtype) {
  return binary(c, "sub", with_dim(c, c.operand("x1", dtype), 1), with_dim(c, c.operand("x2", dtype), 2));
}

/// The gradient of a norm of differences by them. p is not 0.
Value slope_of(Context& c, Value off, Value norm, double p) {
  const Value size = unary(c, "abs", off), sign = unary(c, "sign", off);
  Value slope = sign;
  if (std::isinf(p))
    slope = binary(c, "mul", sign, cast_to(c, binary(c, "eq", size, norm), off.dtype()));
  else if (p == 2)
    slope = binary(c, "div", off, norm);
  else if (p != 1)
    slope = binary(c, "mul", sign, binary(c, "pow", binary(c, "div", size, norm), p - 1));
  // Equal elements give no gradient, be their rows equal or not.
  return select(c, binary(c, "eq", off, 0), number_like(c, off, 0), slope);
}

void row_distances(Context& c) {
  const auto& result = c.result();
  c.argument("compute_mode");  // how the same numbers are computed
  const double p = c.number("p", 2);
  const Value off = differences(c, accumulated(result.dtype));
  if (product(off.dims()) == 0) return c.give(full(c, result, 0));
  const Value norm = norm_over(c, off, p, {static_cast<int64_t>(off.rank()) - 1}, false);
  c.give(cast_to(c, norm, result.dtype));
}
/// The gradient by x1: for each of its rows the sum over the rows of x2.
void row_distances_backward(Context& c) {
  const auto& result = c.result();
  const DType wide = accumulated(result.dtype);
  const double p = c.number("p");
  const Value off = differences(c, wide);
  const Value g = with_dim(c, c.operand("grad_output", wide), 0),
              norm = with_dim(c, c.operand("cdist", wide), 0);
  if (p == 0 || product(off.dims()) == 0) return c.give(full(c, result, 0));
  const Value slope = slope_of(c, off, norm, p);
  const Value all = binary(c, "mul", g, slope);
  const Value sum = reduce_over(c, "reduce_sum", all, {static_cast<int64_t>(all.rank()) - 2}, false);
  c.give(cast_to(c, sum, result.dtype));
}

/// The rows of each pair i < j, in the order (0, 1), (0, 2), ... (1, 2), ...
struct Pairs {
  Value first, second;
};
Pairs pairs_of(Context& c, int64_t rows) {
  const int64_t count = rows * (rows - 1) / 2;
  const double middle = static_cast<double>(rows) - 0.5;
  // Row i begins at pair i (2 rows - i - 1) / 2.
  const Value k = counting(c, i64, {count}, 0);
  const Value under = binary(c, "add", binary(c, "mul", cast_to(c, k, f64), -2), middle * middle - 1);
  const Value row =
      unary(c, "floor", binary(c, "sub", number_like(c, under, middle), unary(c, "sqrt", under)));
  const Value first = cast_to(c, row, i64);
  const Value rest = binary(c, "sub", integer_scalar(c, i64, 2 * rows - 1), first);
  const Value begin = binary(c, "div", binary(c, "mul", first, rest), integer_scalar(c, i64, 2));
  const Value place = binary(c, "sub", binary(c, "add", k, first), begin);
  return {first, binary(c, "add", place, integer_scalar(c, i64, 1))};
}
void pair_distances(Context& c) {
  const auto& result = c.result();
  const Value x = c.operand("self", accumulated(result.dtype));
  if (product(x.dims()) == 0 || product(result.dims) == 0) return c.give(full(c, result, 0));
  const auto [first, second] = pairs_of(c, size_of(c, x, 0));
  const Value off = binary(c, "sub", gather(c, x, first, 0), gather(c, x, second, 0));
  c.give(cast_to(c, norm_over(c, off, c.number("p", 2), {1}, false), result.dtype));
}
void pair_distances_backward(Context& c) {
  const auto& result = c.result();
  const double p = c.number("p");
  const Value x = c.operand("self", accumulated(result.dtype));
  const Value g = with_dim(c, c.operand("grad_output", x.dtype()), 0),
              norm = with_dim(c, c.operand("pdist", x.dtype()), 0);
  if (p == 0 || product(x.dims()) == 0 || product(norm.dims()) == 0) return c.give(full(c, result, 0));
  const auto [first, second] = pairs_of(c, size_of(c, x, 0));
  const Value off = binary(c, "sub", gather(c, x, first, 0), gather(c, x, second, 0));
  const Value each = binary(c, "mul", g, slope_of(c, off, norm, p));
  const auto added = [&](Value sum, Value rows, Value parts) {
    return scatter(c, sum, 0, expand_to(c, with_dim(c, rows, 0), parts.dims()), parts, "add");
  };
  const Value sum = added(full(c, x.type(), 0), first, each);
  c.give(cast_to(c, added(sum, second, unary(c, "neg", each)), result.dtype));
}

/// The norm of the differences along the last dim.
void distance_of_rows(Context& c) {
  const DType dtype = c.result().dtype, wide = accumulated(dtype);
  const Value off = binary(c, "sub", c.operand("x1", wide), c.operand("x2", wide));
  const Value apart = binary(c, "add", off, c.number("eps", 1e-6));
  const Dims axes{static_cast<int64_t>(apart.rank()) - 1};
  c.give(cast_to(c, norm_over(c, apart, c.number("p", 2), axes, c.flag("keepdim", false)), dtype));
}
void cosine_similarity(Context& c) {
  const DType dtype = c.result().dtype, wide = accumulated(dtype);
  const Value a = c.operand("x1", wide), b = c.operand("x2", wide);
  const auto dims = broadcast_dims(c, a.dims(), b.dims());
  const Value x = expand_to(c, a, dims), y = expand_to(c, b, dims);
  const Dims axes{c.dim(c.integer("dim", 1), dims.size())};
  const double eps = c.number("eps", 1e-8);
  const auto unit = [&](Value v) {
    return binary(c, "div", v, binary(c, "maximum", norm_over(c, v, 2, axes), eps));
  };
  const Value sum = reduce_over(c, "reduce_sum", binary(c, "mul", unit(x), unit(y)), axes, false);
  c.give(cast_to(c, sum, dtype));
}

constexpr OpEntry distance_entries[] = {
    {"aten.cosine_similarity.default", "x1 x2 dim eps", cosine_similarity},
    {"aten.pairwise_distance.default", "x1 x2 p eps keepdim", distance_of_rows},
    {"aten.cdist.default", "x1 x2 p compute_mode", row_distances},
    {"aten.pdist.default", "self p", pair_distances},
    {"aten.dist.default", "self other p", distance},
    {"aten._cdist_forward.default", "x1 x2 p compute_mode", row_distances},
    {"aten._cdist_backward.default", "grad_output x1 x2 p cdist", row_distances_backward},
    {"aten._pdist_forward.default", "self p", pair_distances},
    {"aten._pdist_backward.default", "grad_output self p pdist", pair_distances_backward},
};

}  // namespace

std::span<const OpEntry> distance_ops() { return distance_entries; }

}  // namespace ferrite::from_torch
