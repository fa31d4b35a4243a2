// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reductions, softmax and scans.
#include <cmath>
#include <limits>

#include "helpers.h"

namespace ferrite::from_torch {
namespace {

/// The dims that a call names; none named are all.
Dims reduced_dims(Context& c, std::string_view name, size_t rank) {
  const Dims named = c.integers(name);
  return named.empty() ? dim_range(0, rank) : c.dims(named, rank);
}

/// Whether a call names an empty list of dims, and its overload reduces none then.
bool reduces_nothing(Context& c, std::string_view name, Value x) {
  return c.argument(name).list() && c.integers(name).empty() && c.result().dims == x.dims();
}

void reduce(Context& c) {
  c.argument("dtype");
  const Value x = c.operand("self", c.result().dtype);
  c.give(sum_over(c, c.entry.standard, x, reduced_dims(c, "dim", x.rank()), c.flag("keepdim", false)));
}
void prim_reduce(Context& c) {
  c.argument("output_dtype");
  const Value x = c.operand("inp", c.result().dtype);
  if (c.entry.target == "prims.prod.default" && reduces_nothing(c, "dims", x)) return c.give(x);
  c.give(sum_over(c, c.entry.standard, x, reduced_dims(c, "dims", x.rank()), false));
}
/// By halves: no reduction has bits that are set in an odd number of elements.
void prim_xor(Context& c) {
  c.argument("output_dtype");
  Value x = c.operand("inp", c.result().dtype);
  for (const auto dim : x.rank() ? reduced_dims(c, "dims", x.rank()) : Dims()) {
    const auto axis = static_cast<size_t>(dim);
    if (size_of(c, x, axis) == 0) return c.give(full(c, c.result(), 0));
    for (int64_t count = size_of(c, x, axis); count > 1;) {
      const int64_t half = count / 2;
      const Value both =
          binary(c, "bitwise_xor", slice_dim(c, x, axis, 0, half), slice_dim(c, x, axis, half, half));
      x = count % 2 ? concat(c, {both, slice_dim(c, x, axis, count - 1, 1)}, axis) : both;
      count -= half;
    }
  }
  c.give(reshape_to(c, x, c.result().dims));
}
void nan_sum(Context& c) {
  c.argument("dtype");
  Value x = c.operand("self", c.result().dtype);
  if (is_float(x.dtype())) x = select(c, unary(c, "isnan", x), number_like(c, x, 0), x);
  c.give(sum_over(c, "reduce_sum", x, reduced_dims(c, "dim", x.rank()), c.flag("keepdim", false)));
}
void any_or_all(Context& c) {
  const Value x = c.operand("self", boolean);
  const bool keep = c.flag("keepdim", false);
  const Value found = reduces_nothing(c, "dim", x)
                          ? x
                          : reduce_over(c, c.entry.standard, x, reduced_dims(c, "dim", x.rank()), keep);
  c.give(cast_to(c, found, c.result().dtype));
}
/// The greatest of bools is whether any holds, the least whether all do.
Value extreme_over(Context& c, std::string_view op, Value x, const Dims& axes, bool keep) {
  if (x.dtype() == boolean) op = op == "reduce_max" ? "reduce_any" : "reduce_all";
  return reduce_over(c, op, x, axes, keep);
}
void extreme(Context& c) {
  const Value x = c.tensor("self");
  c.give(extreme_over(c, c.entry.standard, x, reduced_dims(c, "dim", x.rank()), c.flag("keepdim", false)));
}
void prim_extreme(Context& c) {
  c.argument("output_dtype");
  const Value x = c.operand("inp", c.result().dtype);
  c.give(extreme_over(c, c.entry.standard, x, reduced_dims(c, "dims", x.rank()), false));
}
Value place_of_extreme(Context& c, std::string_view op, Value x, int64_t axis, bool keep) {
  if (x.dtype() == boolean) x = cast_to(c, x, DType::u8_);
  return c.make(op, {x}, attr("axis", axis), attr("keepdims", keep));
}
void extreme_with_place(Context& c) {
  const Value x = c.tensor("self");
  const std::string name(c.entry.standard);
  if (x.rank() == 0) {
    c.dim(c.integer("dim"), 0);
    c.flag("keepdim", false);
    c.give(0, x);
    return c.give(1, c.graph.scalar(i64, 0));
  }
  const int64_t axis = c.dim(c.integer("dim"), x.rank());
  const bool keep = c.flag("keepdim", false);
  c.give(0, extreme_over(c, "reduce_" + name, x, {axis}, keep));
  c.give(1, place_of_extreme(c, "arg" + name, x, axis, keep));
}
void place(Context& c) {
  Value x = c.tensor("self");
  const bool keep = c.flag("keepdim", false);
  if (!c.has("dim") || x.rank() == 0) {
    if (c.has("dim")) c.dim(c.integer("dim"), x.rank());
    const Value found = place_of_extreme(c, c.entry.standard, flat(c, x), 0, false);
    return c.give(reshape_to(c, found, c.result().dims));
  }
  c.give(place_of_extreme(c, c.entry.standard, x, c.dim(c.integer("dim"), x.rank()), keep));
}
void both_extremes(Context& c) {
  const Value x = c.tensor("self");
  const Dims axes = c.has("dim") ? Dims{c.dim(c.integer("dim"), x.rank())} : dim_range(0, x.rank());
  const bool keep = c.flag("keepdim", false);
  c.give(0, extreme_over(c, "reduce_min", x, axes, keep));
  c.give(1, extreme_over(c, "reduce_max", x, axes, keep));
}

struct Moments {
  Value mean, variance;  ///< both with the reduced dims
};
Moments moments(Context& c, Value x, const Dims& axes, double correction) {
  const Value mean = reduce_over(c, "reduce_mean", x, axes);
  const Value off = binary(c, "sub", x, mean);
  const Value squares = reduce_over(c, "reduce_sum", binary(c, "mul", off, off), axes);
  double count = 1;
  for (const auto axis : axes)
    count *= x.rank() ? static_cast<double>(size_of(c, x, static_cast<size_t>(axis))) : 1;
  return {mean, binary(c, "div", squares, std::max(0.0, count - correction))};
}
double correction_of(Context& c) {
  if (c.has("unbiased")) return c.flag("unbiased", true) ? 1 : 0;
  return c.number("correction", 1);
}
void give_moments(Context& c, bool root, bool mean) {
  const DType dtype = c.result().dtype;
  const Value x = cast_to(c, c.tensor("self"), accumulated(dtype));
  const auto found = moments(c, x, reduced_dims(c, "dim", x.rank()), correction_of(c));
  c.flag("keepdim", false);
  const auto as_result = [&](Value value) {
    return cast_to(c, reshape_to(c, value, c.result().dims), dtype);
  };
  c.give(0, as_result(root ? unary(c, "sqrt", found.variance) : found.variance));
  if (mean) c.give(1, as_result(found.mean));
}
void variance(Context& c) { give_moments(c, false, false); }
void deviation(Context& c) { give_moments(c, true, false); }
void variance_mean(Context& c) { give_moments(c, false, true); }
void deviation_mean(Context& c) { give_moments(c, true, true); }
void prim_variance(Context& c) {
  c.argument("output_dtype");
  const DType dtype = c.result().dtype;
  const Value x = cast_to(c, c.tensor("inp"), accumulated(dtype));
  const Value found = moments(c, x, reduced_dims(c, "dims", x.rank()), c.number("correction", 1)).variance;
  c.give(cast_to(c, reshape_to(c, found, c.result().dims), dtype));
}

void vector_norm(Context& c) {
  const DType dtype = c.result().dtype;
  c.argument("dtype");
  const char* power_name = c.has("p") ? "p" : "ord";
  const double power = c.number(power_name, 2);
  const Value x = cast_to(c, c.tensor("self"), accumulated(dtype));
  const Dims axes = reduced_dims(c, "dim", x.rank());
  c.flag("keepdim", false);
  c.give(cast_to(c, reshape_to(c, norm_over(c, x, power, axes), c.result().dims), dtype));
}

void cumulative_sum(Context& c) {
  c.argument("dtype");
  const Value x = c.operand("self", c.result().dtype);
  const int64_t axis = c.dim(c.integer("dim"), x.rank());
  if (x.rank() == 0) return c.give(x);
  const Value wide = cast_to(c, x, accumulated(x.dtype()));
  c.give(cast_to(c, c.make("cumsum", {wide}, attr("axis", axis)), x.dtype()));
}
/// Running results by doubling: after k steps each element has combined the 2^k elements up to its own.
template <class Combine>
void scan(Context& c, double neutral, Combine&& combine) {
  c.argument("dtype");
  const DType dtype = c.result().dtype;
  Value x = cast_to(c, c.operand("self", dtype), accumulated(dtype));
  const auto axis = static_cast<size_t>(c.dim(c.integer("dim"), x.rank()));
  const int64_t count = x.rank() ? size_of(c, x, axis) : 1;
  for (int64_t step = 1; step < count; step *= 2) {
    Dims before = x.dims();
    before[axis] = step;
    const Value shifted =
        concat(c, {full(c, {x.dtype(), before}, neutral), slice_dim(c, x, axis, 0, count - step)}, axis);
    x = combine(shifted, x);
  }
  c.give(cast_to(c, x, dtype));
}
void cumulative_product(Context& c) {
  scan(c, 1, [&](Value a, Value b) { return binary(c, "mul", a, b); });
}
void cumulative_log_sum_exp(Context& c) {
  scan(c, -std::numeric_limits<double>::infinity(), [&](Value a, Value b) {
    const Value high = binary(c, "maximum", a, b), low = binary(c, "minimum", a, b);
    const Value sum = binary(c, "add", high, unary(c, "log1p", unary(c, "exp", binary(c, "sub", low, high))));
    // Equal infinities have no difference.
    return select(c, binary(c, "logical_and", binary(c, "eq", a, b), unary(c, "isinf", a)), a, sum);
  });
}
/// Running extremes with the places of the last of equal ones; the first NaN and all others that follow it
/// count.
void cumulative_extreme(Context& c) {
  Value x = c.tensor("self");
  const auto axis = static_cast<size_t>(c.dim(c.integer("dim"), x.rank()));
  const bool bools = x.dtype() == boolean, floats = is_float(x.dtype());
  if (bools) x = cast_to(c, x, u8);
  const auto dims = x.dims();
  const int64_t count = x.rank() ? dims[axis] : 1;
  Value place = x.rank() ? counting(c, i64, dims, axis) : c.graph.scalar(i64, 0);
  // By doubling, as scan() does. The elements before the first are itself.
  for (int64_t step = 1; step < count; step *= 2) {
    const auto moved = [&](Value value) {
      return concat(c, {slice_dim(c, value, axis, 0, step), slice_dim(c, value, axis, 0, count - step)},
                    axis);
    };
    const Value before = moved(x), before_place = moved(place);
    Value keeps = binary(c, c.entry.standard, x, before);
    if (floats) {
      const Value number = unary(c, "logical_not", unary(c, "isnan", before));
      keeps = c.make("logical_or", {unary(c, "isnan", x), c.make("logical_and", {number, keeps})});
    }
    x = select(c, keeps, x, before);
    place = select(c, keeps, place, before_place);
  }
  c.give(0, cast_to(c, x, c.result().dtype));
  c.give(1, place);
}
void count_nonzero(Context& c) {
  const Value x = c.operand("self", boolean);
  c.give(reduce_over(c, "reduce_sum", cast_to(c, x, i64), reduced_dims(c, "dim", x.rank()), false));
}
void give_log_sum_exp(Context& c) {
  const Value x = c.operand("self", c.result().dtype);
  const Dims axes = reduced_dims(c, "dim", x.rank());
  c.flag("keepdim", false);
  c.give(reshape_to(c, log_sum_exp(c, x, axes), c.result().dims));
}

// Softmax.

void softmax(Context& c) {
  c.flag("half_to_float", false);
  c.argument("dtype");
  const Value x = c.operand("self", c.result().dtype);
  const int64_t axis = c.dim(c.integer("dim"), x.rank());
  if (x.rank() == 0)
    return c.give(full(c, c.result(), std::string_view(c.entry.standard) == "softmax" ? 1 : 0));
  c.give(c.make(c.entry.standard, {x}, attr("axis", axis)));
}
/// Rows that are -inf throughout become 0.
void safe_softmax(Context& c) {
  c.argument("dtype");
  const Value x = c.operand("self", c.result().dtype);
  const int64_t axis = c.dim(c.integer("dim"), x.rank());
  if (x.rank() == 0) c.unsupported("a tensor of rank 0");
  const Value top = reduce_over(c, "reduce_max", x, {axis});
  const Value dead = binary(c, "eq", top, -std::numeric_limits<double>::infinity());
  c.give(select(c, dead, number_like(c, x, 0), c.make("softmax", {x}, attr("axis", axis))));
}
void softmax_backward(Context& c) {
  const bool logarithm = c.entry.target.find("log") != std::string_view::npos;
  const DType wide = accumulated(c.tensor("grad_output").dtype());
  const Value g = cast_to(c, c.tensor("grad_output"), wide), y = cast_to(c, c.tensor("output"), wide);
  const int64_t axis = c.dim(c.integer("dim"), g.rank());
  c.argument("input_dtype");
  Value dx;
  if (logarithm) {
    dx = binary(c, "sub", g, binary(c, "mul", unary(c, "exp", y), reduce_over(c, "reduce_sum", g, {axis})));
  } else {
    const Value weighted = binary(c, "mul", g, y);
    dx = binary(c, "sub", weighted, binary(c, "mul", y, reduce_over(c, "reduce_sum", weighted, {axis})));
  }
  c.give(cast_to(c, dx, c.result().dtype));
}

/// The mean of the elements that are no NaN.
void nan_mean(Context& c) {
  c.argument("dtype");
  const Value x = c.operand("self", c.result().dtype);
  const Dims axes = reduced_dims(c, "dim", x.rank());
  const bool keep = c.flag("keepdim", false);
  const Value missing = unary(c, "isnan", x), zero = number_like(c, x, 0), one = number_like(c, x, 1);
  const Value sum = sum_over(c, "reduce_sum", select(c, missing, zero, x), axes, keep);
  c.give(binary(c, "div", sum, sum_over(c, "reduce_sum", select(c, missing, zero, one), axes, keep)));
}
/// The sum over the dims that the result does not have, or has once.
void sum_to_size(Context& c) {
  const Value x = c.tensor("self");
  c.argument("size");
  const Dims dims = x.dims(), made = c.result().dims;
  if (made.size() > dims.size()) c.bad("a sum of rank ", made.size());
  const size_t more = dims.size() - made.size();
  Dims axes;
  for (size_t k = 0; k < dims.size(); ++k)
    if (k < more || (made[k - more] == 1 && dims[k] != 1)) axes.push_back(static_cast<int64_t>(k));
  c.give(reshape_to(c, axes.empty() ? x : sum_over(c, "reduce_sum", x, axes, true), made));
}

constexpr const char* whole = "self dtype";
constexpr const char* along_dim = "self dim keepdim dtype";
constexpr const char* named = "self dim keepdim";

constexpr OpEntry reduce_entries[] = {
    {"aten.nanmean.default", along_dim, nan_mean},
    {"aten.sum_to_size.default", "self size", sum_to_size},
    {"aten.sum.default", whole, reduce, "reduce_sum"},
    {"aten.sum.dim_IntList", along_dim, reduce, "reduce_sum"},
    {"aten.mean.default", whole, reduce, "reduce_mean"},
    {"aten.mean.dim", along_dim, reduce, "reduce_mean"},
    {"aten.prod.default", whole, reduce, "reduce_prod"},
    {"aten.prod.dim_int", along_dim, reduce, "reduce_prod"},
    {"prims.sum.default", "inp dims output_dtype", prim_reduce, "reduce_sum"},
    {"prims.prod.default", "inp dims output_dtype", prim_reduce, "reduce_prod"},
    {"prims.xor_sum.default", "inp dims output_dtype", prim_xor},
    {"aten.nansum.default", along_dim, nan_sum},
    {"prims.amax.default", "inp dims output_dtype", prim_extreme, "reduce_max"},
    {"prims.amin.default", "inp dims output_dtype", prim_extreme, "reduce_min"},
    {"prims.var.default", "inp dims correction output_dtype", prim_variance},
    {"aten.amax.default", named, extreme, "reduce_max"},
    {"aten.amin.default", named, extreme, "reduce_min"},
    {"aten.max.default", "self", extreme, "reduce_max"},
    {"aten.min.default", "self", extreme, "reduce_min"},
    {"aten.max.dim", named, extreme_with_place, "max"},
    {"aten.min.dim", named, extreme_with_place, "min"},
    {"aten.argmax.default", named, place, "argmax"},
    {"aten.argmin.default", named, place, "argmin"},
    {"aten.aminmax.default", named, both_extremes},
    {"aten.any.default", "self", any_or_all, "reduce_any"},
    {"aten.any.dim", named, any_or_all, "reduce_any"},
    {"aten.any.dims", named, any_or_all, "reduce_any"},
    {"aten.all.default", "self", any_or_all, "reduce_all"},
    {"aten.all.dim", named, any_or_all, "reduce_all"},
    {"aten.all.dims", named, any_or_all, "reduce_all"},
    {"aten.var.default", "self unbiased", variance},
    {"aten.var.correction", "self dim correction keepdim", variance},
    {"aten.var.dim", "self dim unbiased keepdim", variance},
    {"aten.std.default", "self unbiased", deviation},
    {"aten.std.correction", "self dim correction keepdim", deviation},
    {"aten.std.dim", "self dim unbiased keepdim", deviation},
    {"aten.var_mean.default", "self unbiased", variance_mean},
    {"aten.var_mean.dim", "self dim unbiased keepdim", variance_mean},
    {"aten.var_mean.correction", "self dim correction keepdim", variance_mean},
    {"aten.std_mean.default", "self unbiased", deviation_mean},
    {"aten.std_mean.dim", "self dim unbiased keepdim", deviation_mean},
    {"aten.std_mean.correction", "self dim correction keepdim", deviation_mean},
    {"aten.linalg_vector_norm.default", "self ord dim keepdim dtype", vector_norm},
    {"aten.norm.ScalarOpt_dim", "self p dim keepdim", vector_norm},
    {"aten.norm.ScalarOpt_dim_dtype", "self p dim keepdim dtype", vector_norm},
    {"aten.norm.Scalar", "self p", vector_norm},
    {"aten.norm.ScalarOpt_dtype", "self p dtype", vector_norm},
    {"aten.cumsum.default", "self dim dtype", cumulative_sum},
    {"aten.cumprod.default", "self dim dtype", cumulative_product},
    {"aten.logcumsumexp.default", "self dim", cumulative_log_sum_exp},
    {"aten.cummax.default", "self dim", cumulative_extreme, "ge"},
    {"aten.cummin.default", "self dim", cumulative_extreme, "le"},
    {"aten.count_nonzero.default", "self dim", count_nonzero},
    {"aten.count_nonzero.dim_IntList", "self dim", count_nonzero},
    {"aten.logsumexp.default", named, give_log_sum_exp},
    {"aten._softmax.default", "self dim half_to_float", softmax, "softmax"},
    {"aten._log_softmax.default", "self dim half_to_float", softmax, "log_softmax"},
    {"aten.softmax.int", "self dim dtype", softmax, "softmax"},
    {"aten.log_softmax.int", "self dim dtype", softmax, "log_softmax"},
    {"aten._safe_softmax.default", "self dim dtype", safe_softmax},
    {"aten._softmax_backward_data.default", "grad_output output dim input_dtype", softmax_backward},
    {"aten._log_softmax_backward_data.default", "grad_output output dim input_dtype", softmax_backward},
};

}  // namespace

std::span<const OpEntry> reduce_ops() { return reduce_entries; }

}  // namespace ferrite::from_torch
