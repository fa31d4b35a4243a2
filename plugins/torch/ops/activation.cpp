// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Activation and other pointwise functions that plain torch.export leaves whole, and that PyTorch composes of
// others.
#include <cmath>
#include <limits>

#include "helpers.h"

namespace ferrite::from_torch {
namespace {

/// An op of Ferrite with its own defaults, which are PyTorch's.
void whole_function(Context& c) { c.give(unary(c, c.entry.standard, c.tensor("self"))); }
void celu(Context& c) { c.give(c.make("celu", {c.tensor("self")}, attr("alpha", c.number("alpha", 1)))); }
void glu(Context& c) {
  const Value x = c.tensor("self");
  const size_t dim = named_dim(c, x.rank(), -1);
  const int64_t half = size_of(c, x, dim) / 2;
  const Value gate = unary(c, "sigmoid", slice_dim(c, x, dim, half, half));
  c.give(binary(c, "mul", slice_dim(c, x, dim, 0, half), gate));
}
void log_sigmoid(Context& c) {
  const Value x = c.tensor("self");
  const Value tail = unary(c, "log1p", unary(c, "exp", unary(c, "neg", unary(c, "abs", x))));
  c.give(binary(c, "sub", binary(c, "minimum", x, 0), tail));
}
/// In evaluation a leaky ReLU with the mean slope.
void random_leaky_relu(Context& c) {
  if (c.flag("training", false)) c.unsupported("random slopes; export the model after eval()");
  const double slope = (c.number("lower", 1.0 / 8) + c.number("upper", 1.0 / 3)) / 2;
  c.give(c.make("leaky_relu", {c.tensor("self")}, attr("alpha", slope)));
}
void square(Context& c) {
  const Value x = c.operand("self", c.result().dtype);
  c.give(binary(c, c.result().dtype == boolean ? "logical_and" : "mul", x, x));
}
void fraction_part(Context& c) {
  const Value x = c.tensor("self");
  c.give(binary(c, "sub", x, unary(c, "trunc", x)));
}
constexpr double degrees = 57.29577951308232;
void to_degrees(Context& c) { c.give(binary(c, "mul", c.operand("self", c.result().dtype), degrees)); }
void to_radians(Context& c) { c.give(binary(c, "mul", c.operand("self", c.result().dtype), 1 / degrees)); }
void sinc(Context& c) {
  const Value x = binary(c, "mul", c.operand("self", c.result().dtype), 3.14159265358979323846);
  c.give(select(c, binary(c, "eq", x, 0), number_like(c, x, 1), binary(c, "div", unary(c, "sin", x), x)));
}
/// 0 below 0, 1 above, and `values` at 0.
void step_function(Context& c) {
  const Value x = c.tensor("self"), at_zero = c.operand("values", x.dtype());
  const Value above = cast_to(c, binary(c, "gt", x, 0), x.dtype());
  c.give(select(c, binary(c, "eq", x, 0), at_zero, above));
}
void power_as_f64(Context& c) {
  const DType dtype = c.result().dtype;
  c.give(binary(c, "pow", c.operand("self", dtype), c.operand("exponent", dtype)));
}
void is_close(Context& c) {
  const DType dtype = c.promoted({"self", "other"});
  const Value a = c.operand("self", dtype), b = c.operand("other", dtype);
  const double rtol = c.number("rtol", 1e-5), atol = c.number("atol", 1e-8);
  Value close = binary(c, "eq", a, b);
  if (is_float(dtype)) {
    const Value off = unary(c, "abs", binary(c, "sub", a, b));
    const Value bound = binary(c, "add", binary(c, "mul", unary(c, "abs", b), rtol), atol);
    const Value near = binary(c, "logical_and", binary(c, "le", off, bound),
                              binary(c, "lt", off, std::numeric_limits<double>::infinity()));
    close = binary(c, "logical_or", close, near);
    if (c.flag("equal_nan", false))
      close = binary(c, "logical_or", close,
                     binary(c, "logical_and", unary(c, "isnan", a), unary(c, "isnan", b)));
  } else if (rtol != 0 || atol != 0) {
    const Value wide_a = cast_to(c, a, f64), wide_b = cast_to(c, b, f64);
    const Value bound = binary(c, "add", binary(c, "mul", unary(c, "abs", wide_b), rtol), atol);
    close = binary(c, "logical_or", close,
                   binary(c, "le", unary(c, "abs", binary(c, "sub", wide_a, wide_b)), bound));
    c.flag("equal_nan", false);
  }
  c.give(close);
}

constexpr const char* of_one = "self";

constexpr OpEntry activation_entries[] = {
    {"aten.selu.default", of_one, whole_function, "selu"},
    {"aten.relu6.default", of_one,
     [](Context& c) {
       const Value x = c.tensor("self");
       c.give(c.make("clamp", {x, number_like(c, x, 0), number_like(c, x, 6)}));
     }},
    {"aten.celu.default", "self alpha", celu},
    {"aten.glu.default", "self dim", glu},
    {"aten.log_sigmoid.default", of_one, log_sigmoid},
    {"aten.rrelu.default", "self lower upper training ~generator", random_leaky_relu},
    {"aten.square.default", of_one, square},
    {"aten.frac.default", of_one, fraction_part},
    {"aten.rad2deg.default", of_one, to_degrees},
    {"aten.deg2rad.default", of_one, to_radians},
    {"aten.sinc.default", of_one, sinc},
    {"aten.heaviside.default", "self values", step_function},
    {"aten.float_power.Tensor_Tensor", "self exponent", power_as_f64},
    {"aten.float_power.Tensor_Scalar", "self exponent", power_as_f64},
    {"aten.float_power.Scalar", "self exponent", power_as_f64},
    {"aten.isclose.default", "self other rtol atol equal_nan", is_close},
};

}  // namespace

std::span<const OpEntry> activation_ops() { return activation_entries; }

}  // namespace ferrite::from_torch
