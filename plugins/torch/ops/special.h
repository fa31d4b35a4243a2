// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Arithmetic on values, for functions that are long formulas.
#pragma once

#include <limits>
#include <numbers>
#include <vector>

#include "helpers.h"

namespace ferrite::from_torch {

inline constexpr double pi = std::numbers::pi, infinity = std::numeric_limits<double>::infinity(),
                        nan = std::numeric_limits<double>::quiet_NaN();

inline Value add(Context& c, Value a, Value b) { return binary(c, "add", a, b); }
inline Value add(Context& c, Value a, double b) { return binary(c, "add", a, b); }
inline Value sub(Context& c, Value a, Value b) { return binary(c, "sub", a, b); }
inline Value mul(Context& c, Value a, Value b) { return binary(c, "mul", a, b); }
inline Value mul(Context& c, Value a, double b) { return binary(c, "mul", a, b); }
inline Value div(Context& c, Value a, Value b) { return binary(c, "div", a, b); }
inline Value one_less(Context& c, Value x) { return sub(c, number_like(c, x, 1), x); }
inline Value inverse_of(Context& c, Value x, double numerator = 1) {
  return div(c, number_like(c, x, numerator), x);
}
inline Value square_of(Context& c, Value x) { return mul(c, x, x); }
inline Value choose(Context& c, Value condition, double number, Value x) {
  return select(c, condition, number_like(c, x, number), x);
}

/// The result of a function of one tensor, which is computed in f32 or f64.
using Function = Value (*)(Context& c, Value x);
inline void give_wide(Context& c, Function function, DType wide) {
  c.give(cast_to(c, function(c, c.operand(c.has("x") ? "x" : "self", wide)), c.result().dtype));
}
template <Function function>
void special(Context& c) {
  give_wide(c, function, accumulated(c.result().dtype));
}
template <Function function>
void special_f64(Context& c) {
  give_wide(c, function, f64);
}

/// The polynomial with these coefficients, the constant first.
inline Value polynomial(Context& c, const std::vector<double>& coefficients, Value x) {
  Value sum = number_like(c, x, coefficients.back());
  for (size_t k = coefficients.size() - 1; k-- > 0;) sum = add(c, mul(c, sum, x), coefficients[k]);
  return sum;
}

}  // namespace ferrite::from_torch
