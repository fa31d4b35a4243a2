// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reductions, softmax, scans and losses.
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

/// Sums of low precision are accumulated in f32.
Value sum_over(Context& c, std::string_view op, Value x, const Dims& axes, bool keep) {
  const DType dtype = x.dtype();
  return cast_to(c, reduce_over(c, op, cast_to(c, x, accumulated(dtype)), axes, keep), dtype);
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
    if (x.dims()[axis] == 0) return c.give(full(c, c.result(), 0));
    for (int64_t count = x.dims()[axis]; count > 1;) {
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
    count *= x.rank() ? static_cast<double>(x.dims()[static_cast<size_t>(axis)]) : 1;
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
  const int64_t count = x.rank() ? x.dims()[axis] : 1;
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

// Losses.

/// 0 none, 1 mean, 2 sum
Value reduced_loss(Context& c, Value loss) {
  const int64_t reduction = c.integer("reduction", 1);
  if (reduction == 0) return loss;
  return sum_over(c, reduction == 1 ? "reduce_mean" : "reduce_sum", loss, dim_range(0, loss.rank()), false);
}
void mse_loss(Context& c) {
  const Value off = binary(c, "sub", c.tensor("self"), c.tensor("target"));
  c.give(reduced_loss(c, binary(c, "mul", off, off)));
}
void mse_loss_backward(Context& c) {
  const Value x = c.tensor("self"), g = c.tensor("grad_output");
  const double scale = c.integer("reduction", 1) == 1 ? 2.0 / static_cast<double>(product(x.dims())) : 2.0;
  const Value off = binary(c, "sub", x, c.tensor("target"));
  c.give(binary(c, "mul", binary(c, "mul", off, scale), g));
}

/// An operand in the dtype in which losses are computed.
Value wide_operand(Context& c, std::string_view name) {
  return c.operand(name, accumulated(c.result().dtype));
}
void give_loss(Context& c, Value loss) { c.give(cast_to(c, reduced_loss(c, loss), c.result().dtype)); }
/// slope * grad_output, and for means over the number of elements.
void give_slope(Context& c, Value slope) {
  if (c.integer("reduction", 1) == 1)
    slope = binary(c, "div", slope, static_cast<double>(product(slope.dims())));
  c.give(cast_to(c, binary(c, "mul", slope, wide_operand(c, "grad_output")), c.result().dtype));
}
Value difference(Context& c) { return binary(c, "sub", wide_operand(c, "self"), wide_operand(c, "target")); }

void l1_loss(Context& c) { give_loss(c, unary(c, "abs", difference(c))); }

/// A parabola around 0 that becomes a line at the bound, scaled: smooth_l1_loss by 1 / bound, huber_loss
/// by 1.
struct Bend {
  double bound, scale;
};
Bend read_bend(Context& c) {
  if (c.entry.target.find("huber") != std::string_view::npos) return {c.number("delta", 1), 1};
  const double bound = c.number("beta", 1);
  return {bound, bound > 0 ? 1 / bound : 0};
}
void bent_loss(Context& c) {
  const auto [bound, scale] = read_bend(c);
  const Value off = unary(c, "abs", difference(c));
  if (scale == 0) return give_loss(c, off);
  const Value parabola = binary(c, "mul", binary(c, "mul", off, off), 0.5 * scale);
  const Value line = binary(c, "mul", binary(c, "sub", off, 0.5 * bound), bound * scale);
  give_loss(c, select(c, binary(c, "lt", off, bound), parabola, line));
}
void bent_loss_backward(Context& c) {
  const auto [bound, scale] = read_bend(c);
  const Value off = difference(c);
  if (scale == 0) return give_slope(c, unary(c, "sign", off));
  const Value inner = binary(c, "minimum", binary(c, "maximum", off, -bound), bound);
  give_slope(c, binary(c, "mul", inner, scale));
}

Value weighted_loss(Context& c, Value loss) {
  return c.has("weight") ? binary(c, "mul", loss, wide_operand(c, "weight")) : loss;
}
/// Logarithms are at least -100.
void cross_entropy_of_two(Context& c) {
  const Value x = wide_operand(c, "self"), t = wide_operand(c, "target");
  const Value log = binary(c, "maximum", unary(c, "log", x), -100);
  const Value log_rest = binary(c, "maximum", unary(c, "log1p", unary(c, "neg", x)), -100);
  const Value loss =
      binary(c, "sub", binary(c, "mul", binary(c, "sub", t, 1), log_rest), binary(c, "mul", t, log));
  give_loss(c, weighted_loss(c, loss));
}
void cross_entropy_of_two_backward(Context& c) {
  const Value x = wide_operand(c, "self"), t = wide_operand(c, "target");
  const Value rest = binary(c, "sub", number_like(c, x, 1), x);
  const Value divisor = binary(c, "maximum", binary(c, "mul", rest, x), 1e-12);
  give_slope(c, weighted_loss(c, binary(c, "div", binary(c, "sub", x, t), divisor)));
}
void cross_entropy_of_logits(Context& c) {
  const Value x = wide_operand(c, "self"), t = wide_operand(c, "target");
  const Value tail = unary(c, "log1p", unary(c, "exp", unary(c, "neg", unary(c, "abs", x))));
  Value log_sigmoid = binary(c, "sub", binary(c, "minimum", x, 0), tail);
  if (c.has("pos_weight")) {
    const Value more = binary(c, "mul", binary(c, "sub", wide_operand(c, "pos_weight"), 1), t);
    log_sigmoid = binary(c, "mul", log_sigmoid, binary(c, "add", more, 1));
  }
  const Value rest = binary(c, "mul", binary(c, "sub", number_like(c, t, 1), t), x);
  give_loss(c, weighted_loss(c, binary(c, "sub", rest, log_sigmoid)));
}

/// Operands that the negative log likelihood and its gradient share. The classes are dim 1, or the only dim.
struct Likelihood {
  size_t axis;
  Value target, valid,
      weight;  ///< with a dim of size 1 for the classes; weight: of each target, 0 where ignored
};
Likelihood read_likelihood(Context& c, Value x) {
  const size_t axis = x.rank() == 1 ? 0 : 1;
  Dims dims = x.dims();
  dims[axis] = 1;
  const Value target = reshape_to(c, c.tensor("target"), dims);
  const Value valid = binary(c, "ne", target, static_cast<double>(c.integer("ignore_index", -100)));
  const Value safe = select(c, valid, target, number_like(c, target, 0));
  Value weight = c.optional("weight");
  weight = weight ? c.make("gather", {weight, safe}, attr("axis", 0)) : full(c, {x.dtype(), dims}, 1);
  return {axis, safe, valid, select(c, valid, weight, number_like(c, weight, 0))};
}
void give_nll_loss(Context& c, Value x) {
  const auto v = read_likelihood(c, x);
  const Value picked = c.make("gather_elements", {x, v.target}, attr("axis", static_cast<int64_t>(v.axis)));
  const Value losses =
      unary(c, "neg", binary(c, "mul", select(c, v.valid, picked, number_like(c, picked, 0)), v.weight));
  const int64_t reduction = c.integer("reduction", 1);
  const Dims all = dim_range(0, x.rank());
  const Value total = sum_over(c, "reduce_sum", v.weight, all, false);
  if (reduction == 0) {
    c.give(0, reshape_to(c, losses, c.result(0).dims));
    // PyTorch gives the weight of a single row only.
    if (c.wants(1)) c.give(1, x.rank() == 1 ? total : full(c, c.result(1), 0));
    return;
  }
  const Value sum = sum_over(c, "reduce_sum", losses, all, false);
  c.give(0, reduction == 1 ? binary(c, "div", sum, total) : sum);
  c.give(1, total);
}
void nll_loss(Context& c) { give_nll_loss(c, c.tensor("self")); }
void cross_entropy_loss(Context& c) {
  if (c.number("label_smoothing", 0) != 0) c.unsupported("smoothed labels");
  const Value x = c.tensor("self");
  if (is_float(c.tensor("target").dtype())) c.unsupported("targets that are probabilities");
  give_nll_loss(c, c.make("log_softmax", {x}, attr("axis", int64_t{x.rank() > 1})));
}
void nll_loss_backward(Context& c) {
  const Value x = c.tensor("self");
  const auto v = read_likelihood(c, x);
  Value g = c.tensor("grad_output");
  const Value total = c.tensor("total_weight");
  const int64_t reduction = c.integer("reduction", 1);
  if (reduction == 0) {
    Dims dims = x.dims();
    dims[v.axis] = 1;
    g = reshape_to(c, g, dims);
  } else if (reduction == 1) {
    g = binary(c, "div", g, total);
  }
  // Where all targets are ignored, the divided gradient is infinite.
  const Value each =
      select(c, v.valid, unary(c, "neg", binary(c, "mul", g, v.weight)), number_like(c, v.weight, 0));
  // One element of each row: where the class is the target's.
  const Value classes = counting(c, i64, x.dims(), v.axis);
  const Value here = binary(c, "eq", classes, cast_to(c, v.target, i64));
  const Value dx = select(c, here, each, number_like(c, each, 0));
  c.give(expand_to(c, dx, x.dims()));
}

constexpr const char* whole = "self dtype";
constexpr const char* along_dim = "self dim keepdim dtype";
constexpr const char* named = "self dim keepdim";

constexpr OpEntry reduce_entries[] = {
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
    {"aten.mse_loss.default", "self target reduction", mse_loss},
    {"aten.mse_loss_backward.default", "grad_output self target reduction", mse_loss_backward},
    {"aten.l1_loss.default", "self target reduction", l1_loss},
    {"aten.smooth_l1_loss.default", "self target reduction beta", bent_loss},
    {"aten.smooth_l1_loss_backward.default", "grad_output self target reduction beta", bent_loss_backward},
    {"aten.huber_loss.default", "self target reduction delta", bent_loss},
    {"aten.huber_loss_backward.default", "grad_output self target reduction delta", bent_loss_backward},
    {"aten.binary_cross_entropy.default", "self target weight reduction", cross_entropy_of_two},
    {"aten.binary_cross_entropy_backward.default", "grad_output self target weight reduction",
     cross_entropy_of_two_backward},
    {"aten.binary_cross_entropy_with_logits.default", "self target weight pos_weight reduction",
     cross_entropy_of_logits},
    {"aten.cross_entropy_loss.default", "self target weight reduction ignore_index label_smoothing",
     cross_entropy_loss},
    {"aten.nll_loss.default", "self target weight reduction ignore_index", nll_loss},
    {"aten.nll_loss_forward.default", "self target weight reduction ignore_index", nll_loss},
    {"aten.nll_loss2d_forward.default", "self target weight reduction ignore_index", nll_loss},
    {"aten.nll_loss_backward.default", "grad_output self target weight reduction ignore_index total_weight",
     nll_loss_backward},
    {"aten.nll_loss2d_backward.default", "grad_output self target weight reduction ignore_index total_weight",
     nll_loss_backward},
};

}  // namespace

std::span<const OpEntry> reduce_ops() { return reduce_entries; }

}  // namespace ferrite::from_torch
