// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Pointwise overloads: arithmetic, comparisons, logic, activation functions and conversions.
#include <cmath>
#include <limits>

#include "helpers.h"

namespace ferrite::from_torch {
namespace {

// Ops of one tensor.

/// The op computes in the dtype of the result.
void in_result_type(Context& c) { c.give(unary(c, c.entry.standard, c.operand("self", c.result().dtype))); }
/// PyTorch computes these functions of f16 and bf16 in f32 and rounds once; so does the operator.
void as_given(Context& c) { c.give(unary(c, c.entry.standard, c.tensor("self"))); }

/// PyTorch has checked dtypes and dims when it made the program, and they are fixed.
void nothing(Context&) {}
void identity(Context& c) { c.give(cast_to(c, c.tensor("self"), c.result().dtype)); }
void identity_prim(Context& c) { c.give(cast_to(c, c.tensor("a"), c.result().dtype)); }
void log10(Context& c) {
  c.give(binary(c, "mul", unary(c, "log", c.operand("self", c.result().dtype)), 0.43429448190325182765));
}
/// Rounding functions leave integers as they are.
void rounding(Context& c) {
  const Value x = c.tensor("self");
  c.give(is_float(x.dtype()) ? unary(c, c.entry.standard, x) : x);
}
void round_decimals(Context& c) {
  const auto decimals = c.integer("decimals", 0);
  const Value x = c.tensor("self");
  if (decimals == 0) return c.give(is_float(x.dtype()) ? unary(c, "round", x) : x);
  const double scale = std::pow(10.0, static_cast<double>(std::abs(decimals)));
  const char *there = decimals > 0 ? "mul" : "div", *back = decimals > 0 ? "div" : "mul";
  c.give(binary(c, back, unary(c, "round", binary(c, there, x, scale)), scale));
}
void absolute(Context& c) {
  const Value x = c.tensor("self");
  c.give(class_of(x.dtype()) == FE_CLASS_UINT || x.dtype() == boolean ? x : unary(c, "abs", x));
}
void sign(Context& c) {
  const Value x = c.tensor("self");
  if (x.dtype() == boolean) return c.give(x);
  if (!is_float(x.dtype())) return c.give(unary(c, "sign", x));
  // The sign of a NaN is 0.
  const Value above = cast_to(c, binary(c, "gt", x, 0), x.dtype());
  c.give(binary(c, "sub", above, cast_to(c, binary(c, "lt", x, 0), x.dtype())));
}
void bitwise_not(Context& c) {
  const Value x = c.tensor("self");
  c.give(unary(c, x.dtype() == boolean ? "logical_not" : "bitwise_not", x));
}
void logical_not(Context& c) { c.give(unary(c, "logical_not", c.operand("self", boolean))); }
void is_special(Context& c) {
  const Value x = c.tensor("self");
  if (!is_float(x.dtype())) return c.give(full(c, {boolean, x.dims()}, 0));
  c.give(unary(c, c.entry.standard, x));
}
void is_finite(Context& c) {
  const Value x = c.tensor("self");
  if (!is_float(x.dtype())) return c.give(full(c, {boolean, x.dims()}, 1));
  c.give(binary(c, "lt", unary(c, "abs", x), std::numeric_limits<double>::infinity()));
}
void is_infinite_one_side(Context& c) {
  const Value x = c.tensor("self");
  if (!is_float(x.dtype())) return c.give(full(c, {boolean, x.dims()}, 0));
  const double bound = std::numeric_limits<double>::infinity();
  c.give(binary(c, "eq", x, c.entry.target == "aten.isposinf.default" ? bound : -bound));
}
void sign_bit(Context& c) {
  const Value x = c.tensor("self");
  const int bits = bits_of(x.dtype());
  if (x.dtype() == boolean || class_of(x.dtype()) == FE_CLASS_UINT)
    return c.give(full(c, {boolean, x.dims()}, 0));
  if (!is_float(x.dtype())) return c.give(binary(c, "lt", x, 0));
  const DType raw = bits == 64 ? i64 : bits == 32 ? i32 : bits == 16 ? i16 : i8;
  c.give(binary(c, "lt", c.make("bitcast", {x}, attr("dtype", raw)), 0));
}

// Activation functions.

void gelu(Context& c) {
  c.give(c.make("gelu", {c.tensor("self")}, attr("approximate", c.text("approximate", "none"))));
}
void elu(Context& c) {
  const double alpha = c.number("alpha", 1), scale = c.number("scale", 1), input = c.number("input_scale", 1);
  const Value x = c.tensor("self");
  if (input == 1 && scale == 1) return c.give(c.make("elu", {x}, attr("alpha", alpha)));
  const Value low =
      binary(c, "mul", unary(c, "expm1", input == 1 ? x : binary(c, "mul", x, input)), alpha * scale);
  c.give(select(c, binary(c, "gt", x, 0), binary(c, "mul", x, scale), low));
}
void leaky_relu(Context& c) {
  c.give(c.make("leaky_relu", {c.tensor("self")}, attr("alpha", c.number("negative_slope", 0.01))));
}
void softplus(Context& c) {
  const double beta = c.number("beta", 1), threshold = c.number("threshold", 20);
  const Value x = c.tensor("self");
  const Value scaled = beta == 1 ? x : binary(c, "mul", x, beta);
  Value soft = unary(c, "log1p", unary(c, "exp", scaled));
  if (beta != 1) soft = binary(c, "div", soft, beta);
  c.give(select(c, binary(c, "gt", scaled, threshold), x, soft));
}
void softshrink(Context& c) {
  const double lambda = c.number("lambd", 0.5);
  const Value x = c.tensor("self");
  // A NaN is neither above nor below, and PyTorch keeps it.
  const Value high = binary(c, "sub", x, lambda), low = binary(c, "add", x, lambda);
  const Value inner = select(c, binary(c, "lt", x, -lambda), low, binary(c, "mul", x, 0.0));
  c.give(select(c, binary(c, "gt", x, lambda), high, inner));
}
void hardshrink(Context& c) {
  const double lambda = c.number("lambd", 0.5);
  const Value x = c.tensor("self");
  const Value inside = binary(c, "le", unary(c, "abs", x), std::abs(lambda));
  c.give(select(c, inside, number_like(c, x, 0), x));
}
void threshold(Context& c) {
  const Value x = c.tensor("self");
  c.give(select(c, binary(c, "le", x, c.number("threshold")), number_like(c, x, c.number("value")), x));
}
void hardsigmoid(Context& c) {
  const Value x = c.tensor("self");
  c.give(c.make("hardsigmoid", {x}, attr("alpha", 1.0 / 6), attr("beta", 0.5)));
}
void logit(Context& c) {
  Value x = c.operand("self", c.result().dtype);
  if (c.has("eps")) {
    const double eps = c.number("eps");
    x = binary(c, "minimum", binary(c, "maximum", x, eps), 1 - eps);
  }
  c.give(unary(c, "log", binary(c, "div", x, binary(c, "sub", number_like(c, x, 1), x))));
}
void prelu(Context& c) {
  const Value x = c.tensor("self");
  Value slope = c.tensor("weight");
  if (slope.rank() == 1 && x.rank() >= 2) slope = along(c, slope, 1, x.rank());
  c.give(select(c, binary(c, "gt", x, 0), x, binary(c, "mul", slope, x)));
}

// Ops of two values, tensors or numbers.

Value pair(Context& c, std::string_view op, DType dtype) {
  return binary(c, op, c.operand("self", dtype), c.operand("other", dtype));
}
void arithmetic(Context& c) { c.give(pair(c, c.entry.standard, c.result().dtype)); }
void add_or_sub(Context& c) {
  const DType dtype = c.result().dtype;
  const bool subtracts = std::string_view(c.entry.standard) == "sub";
  const Value self = c.operand("self", dtype);
  Value other = c.operand("other", dtype);
  if (c.has("alpha") && c.number("alpha") != 1) other = binary(c, "mul", other, c.operand("alpha", dtype));
  if (dtype == boolean) return c.give(binary(c, "logical_or", self, other));
  const bool reversed = c.entry.target.starts_with("aten.rsub");
  c.give(reversed ? binary(c, "sub", other, self) : binary(c, subtracts ? "sub" : "add", self, other));
}
void rsub(Context& c) {
  const DType dtype = c.result().dtype;
  Value self = c.operand("self", dtype);
  if (c.has("alpha") && c.number("alpha") != 1) self = binary(c, "mul", self, c.operand("alpha", dtype));
  c.give(binary(c, "sub", c.operand("other", dtype), self));
}
void mul(Context& c) {
  c.give(pair(c, c.result().dtype == boolean ? "logical_and" : "mul", c.result().dtype));
}

void power(Context& c) {
  const DType dtype = c.result().dtype;
  const Value x = c.operand("self", dtype);
  if (is_float(dtype) && !c.is_tensor("exponent") && std::abs(c.number("exponent")) == 0.5)
    return c.give(unary(c, c.number("exponent") > 0 ? "sqrt" : "rsqrt", x));  // NaN for a negative infinity
  c.give(binary(c, "pow", x, c.operand("exponent", dtype)));
}
void compare(Context& c) { c.give(pair(c, c.entry.standard, c.promoted({"self", "other"}))); }
void logical(Context& c) { c.give(pair(c, c.entry.standard, boolean)); }
void bitwise(Context& c) {
  const DType dtype = c.result().dtype;
  c.give(pair(c, (dtype == boolean ? "logical_" : "bitwise_") + std::string(c.entry.standard), dtype));
}
/// A number of bits that is negative or beyond the width shifts everything out: 0 is left, or the sign.
void shift(Context& c) {
  const DType dtype = c.result().dtype;
  if (dtype == boolean) c.unsupported("a shift of bools");
  const Value x = c.operand("self", dtype);
  Value bits = c.operand("other", dtype);
  if (class_of(dtype) != FE_CLASS_UINT) {
    const bool keeps_sign = std::string_view(c.entry.standard) == "shift_right";
    const double width = bits_of(dtype);
    const Value within = c.make("logical_and", {binary(c, "ge", bits, 0), binary(c, "lt", bits, width)});
    bits = select(c, within, bits, number_like(c, bits, keeps_sign ? width - 1 : width));
  }
  c.give(binary(c, c.entry.standard, x, bits));
}
/// Of two numbers the one that is no NaN.
void nan_ignoring(Context& c) {
  const DType dtype = c.result().dtype;
  const Value a = c.operand("self", dtype), b = c.operand("other", dtype);
  const Value chosen = binary(c, c.entry.standard, a, b);
  if (!is_float(dtype)) return c.give(chosen);
  c.give(select(c, unary(c, "isnan", a), b, select(c, unary(c, "isnan", b), a, chosen)));
}
void copysign(Context& c) {
  const DType dtype = c.result().dtype;
  const Value a = c.operand("self", dtype), b = c.operand("other", dtype);
  const int bits = bits_of(dtype);
  const DType raw = bits == 64 ? i64 : bits == 32 ? i32 : i16;
  const Value negative = binary(c, "lt", c.make("bitcast", {b}, attr("dtype", raw)), 0);
  const Value size = unary(c, "abs", a);
  c.give(select(c, negative, unary(c, "neg", size), size));
}
void times_power_of_two(Context& c) {
  const DType dtype = c.result().dtype;
  const Value exponent = c.tensor("other");
  const Value power =
      unary(c, "exp2", cast_to(c, exponent, is_float(exponent.dtype()) ? exponent.dtype() : f32));
  c.give(cast_to(c, binary(c, "mul", c.operand("self", dtype), cast_to(c, power, dtype)), dtype));
}
/// 0 or pi, as the sign says.
void angle(Context& c) {
  const DType dtype = c.result().dtype;
  const Value x = c.operand("self", dtype);
  const Value side =
      select(c, binary(c, "lt", x, 0), number_like(c, x, 3.14159265358979323846), number_like(c, x, 0));
  c.give(select(c, unary(c, "isnan", x), x, side));
}
void hypot(Context& c) {
  const DType dtype = c.result().dtype;
  const Value a = unary(c, "abs", c.operand("self", dtype)), b = unary(c, "abs", c.operand("other", dtype));
  const Value high = binary(c, "maximum", a, b), low = binary(c, "minimum", a, b);
  const Value ratio = binary(c, "div", low, high);
  const Value length =
      binary(c, "mul", high, unary(c, "sqrt", binary(c, "add", binary(c, "mul", ratio, ratio), 1)));
  const Value infinite = c.make("logical_or", {unary(c, "isinf", a), unary(c, "isinf", b)});
  const Value bound =
      number_like(c, a, std::numeric_limits<double>::infinity());  // also of an infinity and a NaN
  c.give(select(c, infinite, bound, select(c, binary(c, "eq", high, 0), high, length)));
}
void log_add_exp(Context& c) {
  const bool binary_base = c.entry.target == "aten.logaddexp2.default";
  const DType dtype = c.result().dtype;
  const Value a = c.operand("self", dtype), b = c.operand("other", dtype);
  const Value high = binary(c, "maximum", a, b), low = binary(c, "minimum", a, b);
  const Value power = unary(c, binary_base ? "exp2" : "exp", binary(c, "sub", low, high));
  Value sum = unary(c, "log1p", power);
  if (binary_base) sum = binary(c, "mul", sum, 1.4426950408889634);
  // Equal infinities have no difference.
  const Value same = c.make("logical_and", {binary(c, "eq", a, b), unary(c, "isinf", high)});
  c.give(select(c, same, high, binary(c, "add", high, sum)));
}
void xlogy(Context& c) {
  const DType dtype = c.result().dtype;
  const Value a = c.operand("self", dtype), b = c.operand("other", dtype);
  const Value zero =
      select(c, binary(c, "eq", a, 0), number_like(c, a, 0), binary(c, "mul", a, unary(c, "log", b)));
  c.give(select(c, unary(c, "isnan", b), b, zero));
}

// Of three.

void where(Context& c) {
  const DType dtype = c.result().dtype;
  const Value chosen = select(c, c.tensor("condition"), c.operand("self", dtype), c.operand("other", dtype));
  c.give(expand_to(c, chosen, c.result().dims));
}
void where_prim(Context& c) {
  const DType dtype = c.result().dtype;
  const Value chosen = select(c, c.tensor("pred"), c.operand("a", dtype), c.operand("b", dtype));
  c.give(expand_to(c, chosen, c.result().dims));
}
void clamp(Context& c) {
  const bool tanh_like = c.entry.target.starts_with("aten.hardtanh");
  const DType dtype = c.result().dtype;
  const auto bound = [&](const char* name, double otherwise) {
    if (c.has(name)) return c.operand(name, dtype);
    return tanh_like ? c.graph.scalar(dtype, otherwise) : Value();
  };
  // A tensor as bound may be larger than the input.
  const Value x = expand_to(c, c.operand("self", dtype), c.result().dims);
  c.give(c.make("clamp",
                {x, bound(tanh_like ? "min_val" : "min", -1), bound(tanh_like ? "max_val" : "max", 1)}));
}
void lerp(Context& c) {
  const DType dtype = c.result().dtype;
  const Value start = c.tensor("self"), end = c.tensor("end"), weight = c.operand("weight", dtype);
  const Value length = binary(c, "sub", end, start);
  // PyTorch goes from the nearer end, so that a weight of 1 gives the end itself.
  const Value near = binary(c, "add", start, binary(c, "mul", weight, length));
  const Value rest = binary(c, "sub", number_like(c, weight, 1), weight);
  const Value far = binary(c, "sub", end, binary(c, "mul", length, rest));
  c.give(select(c, binary(c, "lt", unary(c, "abs", weight), 0.5), near, far));
}
void add_product(Context& c) {
  const DType dtype = c.result().dtype;
  Value product = binary(c, c.entry.standard, c.operand("tensor1", dtype), c.operand("tensor2", dtype));
  if (c.has("value") && c.number("value") != 1)
    product = binary(c, "mul", product, c.operand("value", dtype));
  c.give(binary(c, "add", c.operand("self", dtype), product));
}
void fma(Context& c) {
  const DType dtype = c.result().dtype;
  const Value product = binary(c, "mul", c.operand("a", dtype), c.operand("b", dtype));
  c.give(binary(c, "add", product, c.operand("c", dtype)));
}
void masked_fill(Context& c) {
  const DType dtype = c.result().dtype;
  const Value filled = select(c, c.tensor("mask"), c.operand("value", dtype), c.tensor("self"));
  c.give(expand_to(c, filled, c.result().dims));
}
void copy(Context& c) {
  c.flag("non_blocking", false);
  c.tensor("self");
  c.give(expand_to(c, cast_to(c, c.tensor("src"), c.result().dtype), c.result().dims));
}
void nan_to_num(Context& c) {
  Value x = c.tensor("self");
  if (!is_float(x.dtype())) return c.give(x);
  const double inf = std::numeric_limits<double>::infinity();
  const double most = x.dtype() == f64   ? std::numeric_limits<double>::max()
                      : x.dtype() == f32 ? static_cast<double>(std::numeric_limits<float>::max())
                      : x.dtype() == f16 ? 65504.0
                                         : 3.3895313892515355e38;
  const Value nan = number_like(c, x, c.number("nan", 0));
  const Value high = number_like(c, x, c.number("posinf", most)),
              low = number_like(c, x, c.number("neginf", -most));
  const Value finite = select(c, binary(c, "eq", x, inf), high, select(c, binary(c, "eq", x, -inf), low, x));
  c.give(select(c, unary(c, "isnan", x), nan, finite));
}
void sigmoid_backward(Context& c) {
  const Value g = c.tensor("grad_output"), y = c.tensor("output");
  c.give(binary(c, "mul", g, binary(c, "mul", binary(c, "sub", number_like(c, y, 1), y), y)));
}
void tanh_backward(Context& c) {
  const Value g = c.tensor("grad_output"), y = c.tensor("output");
  c.give(binary(c, "mul", g, binary(c, "sub", number_like(c, y, 1), binary(c, "mul", y, y))));
}
void threshold_backward(Context& c) {
  const Value g = c.tensor("grad_output"), x = c.tensor("self");
  c.give(select(c, binary(c, "le", x, c.number("threshold")), number_like(c, g, 0), g));
}
void gelu_backward(Context& c) {
  const Value g = c.tensor("grad_output");
  const DType wide = accumulated(g.dtype());
  const Value x = cast_to(c, c.tensor("self"), wide);
  Value slope;
  if (c.text("approximate", "none") == "tanh") {
    const double beta = std::sqrt(2.0) * (2 / std::sqrt(3.14159265358979323846)) * 0.5, kappa = 0.044715;
    const Value square = binary(c, "mul", x, x);
    const Value inner =
        binary(c, "mul", binary(c, "add", x, binary(c, "mul", binary(c, "mul", square, x), kappa)), beta);
    const Value tanh = unary(c, "tanh", inner);
    const Value left = binary(c, "mul", binary(c, "add", tanh, 1), 0.5);
    const Value derivative = binary(c, "mul", binary(c, "add", binary(c, "mul", square, 3 * kappa), 1), beta);
    const Value bend = binary(c, "sub", number_like(c, x, 1), binary(c, "mul", tanh, tanh));
    slope = binary(c, "add", left,
                   binary(c, "mul", binary(c, "mul", binary(c, "mul", x, 0.5), bend), derivative));
  } else {
    const Value cdf =
        binary(c, "mul", binary(c, "add", unary(c, "erf", binary(c, "mul", x, std::sqrt(0.5))), 1), 0.5);
    const Value pdf =
        binary(c, "mul", unary(c, "exp", binary(c, "mul", binary(c, "mul", x, x), -0.5)), 0.3989422804014327);
    slope = binary(c, "add", cdf, binary(c, "mul", x, pdf));
  }
  c.give(cast_to(c, binary(c, "mul", cast_to(c, g, wide), slope), g.dtype()));
}
void silu_backward(Context& c) {
  const Value g = c.tensor("grad_output");
  const DType wide = accumulated(g.dtype());
  const Value x = cast_to(c, c.tensor("self"), wide), gate = unary(c, "sigmoid", x);
  const Value rest = binary(c, "sub", number_like(c, x, 1), gate);
  const Value slope = binary(c, "mul", gate, binary(c, "add", binary(c, "mul", x, rest), 1));
  c.give(cast_to(c, binary(c, "mul", cast_to(c, g, wide), slope), g.dtype()));
}

constexpr const char* one = "self";
constexpr const char* two = "self other";

constexpr OpEntry pointwise_entries[] = {
    {"aten.abs.default", one, absolute},
    {"aten.acos.default", one, in_result_type, "acos"},
    {"aten.acosh.default", one, in_result_type, "acosh"},
    {"aten.asin.default", one, in_result_type, "asin"},
    {"aten.asinh.default", one, in_result_type, "asinh"},
    {"aten.atan.default", one, in_result_type, "atan"},
    {"aten.atanh.default", one, in_result_type, "atanh"},
    {"aten.ceil.default", one, rounding, "ceil"},
    {"aten.cos.default", one, in_result_type, "cos"},
    {"aten.cosh.default", one, in_result_type, "cosh"},
    {"aten.erf.default", one, in_result_type, "erf"},
    {"aten.exp.default", one, in_result_type, "exp"},
    {"aten.exp2.default", one, in_result_type, "exp2"},
    {"aten.expm1.default", one, in_result_type, "expm1"},
    {"aten.floor.default", one, rounding, "floor"},
    {"aten.log.default", one, in_result_type, "log"},
    {"aten.log1p.default", one, in_result_type, "log1p"},
    {"aten.log10.default", one, log10},
    {"aten.log2.default", one, in_result_type, "log2"},
    {"aten.neg.default", one, as_given, "neg"},
    {"aten.reciprocal.default", one, in_result_type, "reciprocal"},
    {"aten.relu.default", one, as_given, "relu"},
    {"aten.round.default", one, rounding, "round"},
    {"aten.round.decimals", "self decimals", round_decimals},
    {"aten.rsqrt.default", one, in_result_type, "rsqrt"},
    {"aten.sigmoid.default", one, in_result_type, "sigmoid"},
    {"aten.sign.default", one, sign},
    {"aten.silu.default", one, as_given, "silu"},
    {"aten.sin.default", one, in_result_type, "sin"},
    {"aten.sinh.default", one, in_result_type, "sinh"},
    {"aten.sqrt.default", one, in_result_type, "sqrt"},
    {"aten.tan.default", one, in_result_type, "tan"},
    {"aten.tanh.default", one, in_result_type, "tanh"},
    {"aten.trunc.default", one, rounding, "trunc"},
    {"aten.isinf.default", one, is_special, "isinf"},
    {"aten.isnan.default", one, is_special, "isnan"},
    {"aten.isfinite.default", one, is_finite},
    {"aten.isposinf.default", one, is_infinite_one_side},
    {"aten.isneginf.default", one, is_infinite_one_side},
    {"aten.signbit.default", one, sign_bit},
    {"aten.bitwise_not.default", one, bitwise_not},
    {"aten.logical_not.default", one, logical_not},
    {"aten.nan_to_num.default", "self nan posinf neginf", nan_to_num},
    {"aten.logit.default", "self eps", logit},
    {"aten.gelu.default", "self approximate", gelu},
    {"aten.gelu_backward.default", "grad_output self approximate", gelu_backward},
    {"aten.elu.default", "self alpha scale input_scale", elu},
    {"aten.leaky_relu.default", "self negative_slope", leaky_relu},
    {"aten.softplus.default", "self beta threshold", softplus},
    {"aten.softshrink.default", "self lambd", softshrink},
    {"aten.hardshrink.default", "self lambd", hardshrink},
    {"aten.threshold.default", "self threshold value", threshold},
    {"aten.hardsigmoid.default", one, hardsigmoid},
    {"aten.hardswish.default", one, as_given, "hardswish"},
    {"aten.mish.default", one, as_given, "mish"},
    {"aten._prelu_kernel.default", "self weight", prelu},
    {"aten.prelu.default", "self weight", prelu},
    {"aten.sigmoid_backward.default", "grad_output output", sigmoid_backward},
    {"aten.tanh_backward.default", "grad_output output", tanh_backward},
    {"aten.threshold_backward.default", "grad_output self threshold", threshold_backward},
    {"aten.silu_backward.default", "grad_output self", silu_backward},

    {"aten.add.Tensor", "self other alpha", add_or_sub, "add"},
    {"aten.add.Scalar", "self other alpha", add_or_sub, "add"},
    {"aten.sub.Tensor", "self other alpha", add_or_sub, "sub"},
    {"aten.sub.Scalar", "self other alpha", add_or_sub, "sub"},
    {"aten.rsub.Tensor", "self other alpha", rsub},
    {"aten.rsub.Scalar", "self other alpha", rsub},
    {"aten.mul.Tensor", two, mul},
    {"aten.mul.Scalar", two, mul},
    {"aten.fmod.Tensor", two, arithmetic, "remainder_trunc"},
    {"aten.fmod.Scalar", two, arithmetic, "remainder_trunc"},
    {"aten.remainder.Tensor", two, arithmetic, "mod"},
    {"aten.remainder.Scalar", two, arithmetic, "mod"},
    {"aten.remainder.Scalar_Tensor", two, arithmetic, "mod"},
    {"aten.pow.Tensor_Tensor", "self exponent", power},
    {"aten.pow.Tensor_Scalar", "self exponent", power},
    {"aten.pow.Scalar", "self exponent", power},
    {"aten.atan2.default", two, arithmetic, "atan2"},
    {"aten.maximum.default", two, arithmetic, "maximum"},
    {"aten.minimum.default", two, arithmetic, "minimum"},
    {"aten.max.other", two, arithmetic, "maximum"},
    {"aten.min.other", two, arithmetic, "minimum"},
    {"aten.fmax.default", two, nan_ignoring, "maximum"},
    {"aten.fmin.default", two, nan_ignoring, "minimum"},
    {"aten.copysign.Tensor", two, copysign},
    {"aten.copysign.Scalar", two, copysign},
    {"aten.hypot.default", two, hypot},
    {"aten.ldexp.Tensor", two, times_power_of_two},
    {"aten.angle.default", one, angle},
    {"aten.logaddexp.default", two, log_add_exp},
    {"aten.logaddexp2.default", two, log_add_exp},
    {"aten.xlogy.Tensor", two, xlogy},
    {"aten.xlogy.Scalar_Self", two, xlogy},
    {"aten.xlogy.Scalar_Other", two, xlogy},
    {"aten.eq.Tensor", two, compare, "eq"},
    {"aten.eq.Scalar", two, compare, "eq"},
    {"aten.ne.Tensor", two, compare, "ne"},
    {"aten.ne.Scalar", two, compare, "ne"},
    {"aten.lt.Tensor", two, compare, "lt"},
    {"aten.lt.Scalar", two, compare, "lt"},
    {"aten.le.Tensor", two, compare, "le"},
    {"aten.le.Scalar", two, compare, "le"},
    {"aten.gt.Tensor", two, compare, "gt"},
    {"aten.gt.Scalar", two, compare, "gt"},
    {"aten.ge.Tensor", two, compare, "ge"},
    {"aten.ge.Scalar", two, compare, "ge"},
    {"aten.logical_and.default", two, logical, "logical_and"},
    {"aten.logical_or.default", two, logical, "logical_or"},
    {"aten.logical_xor.default", two, logical, "logical_xor"},
    {"aten.bitwise_and.Tensor", two, bitwise, "and"},
    {"aten.bitwise_and.Scalar", two, bitwise, "and"},
    {"aten.bitwise_and.Scalar_Tensor", two, bitwise, "and"},
    {"aten.__and__.Tensor", two, bitwise, "and"},
    {"aten.__and__.Scalar", two, bitwise, "and"},
    {"aten.__or__.Tensor", two, bitwise, "or"},
    {"aten.__or__.Scalar", two, bitwise, "or"},
    {"aten.__xor__.Tensor", two, bitwise, "xor"},
    {"aten.__xor__.Scalar", two, bitwise, "xor"},
    {"aten.bitwise_or.Tensor", two, bitwise, "or"},
    {"aten.bitwise_or.Scalar", two, bitwise, "or"},
    {"aten.bitwise_or.Scalar_Tensor", two, bitwise, "or"},
    {"aten.bitwise_xor.Tensor", two, bitwise, "xor"},
    {"aten.bitwise_xor.Scalar", two, bitwise, "xor"},
    {"aten.bitwise_xor.Scalar_Tensor", two, bitwise, "xor"},
    {"aten.__lshift__.Tensor", two, shift, "shift_left"},
    {"aten.__lshift__.Scalar", two, shift, "shift_left"},
    {"aten.bitwise_left_shift.Tensor", two, shift, "shift_left"},
    {"aten.bitwise_left_shift.Tensor_Scalar", two, shift, "shift_left"},
    {"aten.bitwise_left_shift.Scalar_Tensor", two, shift, "shift_left"},
    {"aten.__rshift__.Tensor", two, shift, "shift_right"},
    {"aten.__rshift__.Scalar", two, shift, "shift_right"},
    {"aten.bitwise_right_shift.Tensor", two, shift, "shift_right"},
    {"aten.bitwise_right_shift.Tensor_Scalar", two, shift, "shift_right"},
    {"aten.bitwise_right_shift.Scalar_Tensor", two, shift, "shift_right"},

    {"aten.where.self", "condition self other", where},
    {"aten.where.ScalarSelf", "condition self other", where},
    {"aten.where.ScalarOther", "condition self other", where},
    {"aten.where.Scalar", "condition self other", where},
    {"aten.clamp.default", "self min max", clamp},
    {"aten.clamp.Tensor", "self min max", clamp},
    {"aten.clamp_min.default", "self min", clamp},
    {"aten.clamp_min.Tensor", "self min", clamp},
    {"aten.clamp_max.default", "self max", clamp},
    {"aten.clamp_max.Tensor", "self max", clamp},
    {"aten.hardtanh.default", "self min_val max_val", clamp},
    {"aten.lerp.Scalar", "self end weight", lerp},
    {"aten.lerp.Tensor", "self end weight", lerp},
    {"aten.addcmul.default", "self tensor1 tensor2 value", add_product, "mul"},
    {"aten.addcdiv.default", "self tensor1 tensor2 value", add_product, "div"},
    {"aten.masked_fill.Scalar", "self mask value", masked_fill},
    {"aten.masked_fill.Tensor", "self mask value", masked_fill},
    {"prims.fma.default", "a b c", fma},
    {"prims.pow.default", two, arithmetic, "pow"},
    {"prims.where.default", "pred a b", where_prim},

    {"aten.alias.default", one, identity},
    {"aten.detach.default", one, identity},
    {"aten.clone.default", "self ~memory_format", identity},
    {"aten.contiguous.default", "self ~memory_format", identity},
    {"aten._assert_tensor_metadata.default", "~a ~*", nothing},
    {"aten.to.dtype", "self ~dtype ~non_blocking ~copy ~memory_format", identity},
    {"aten.to.dtype_layout", "self ~dtype ~layout ~device ~pin_memory ~non_blocking ~copy ~memory_format",
     identity},
    {"aten.to.device", "self ~device ~dtype ~non_blocking ~copy ~memory_format", identity},
    {"aten.to.other", "self ~other ~non_blocking ~copy ~memory_format", identity},
    {"aten.type_as.default", "self ~other", identity},
    {"aten.lift_fresh_copy.default", one, identity},
    {"aten.lift_fresh.default", one, identity},
    {"aten._to_copy.default", "self ~dtype ~layout ~device ~pin_memory ~non_blocking ~memory_format",
     identity},
    {"prims.convert_element_type.default", "a ~dtype", identity_prim},
    {"prims.device_put.default", "a ~device ~non_blocking", identity_prim},
    {"aten.copy.default", "self src non_blocking", copy},
};

}  // namespace

std::span<const OpEntry> pointwise_ops() { return pointwise_entries; }

}  // namespace ferrite::from_torch
