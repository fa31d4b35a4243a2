// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Quotients and divisors.
#include "helpers.h"

namespace ferrite::from_torch {
namespace {

/// By Euclid's algorithm, with as many steps as numbers of the type can take: two numbers that follow each
/// other in Fibonacci's sequence take most, and the n-th has 0.694 n bits.
Value common_divisor(Context& c, Value a, Value b) {
  constexpr double steps_of_bit = 1.4405;
  const int steps = static_cast<int>(bits_of(a.dtype()) * steps_of_bit) + 1;
  for (int step = 0; step < steps; ++step) {
    // The remainder by 0 is 0.
    const Value rest = binary(c, "remainder_trunc", a, b);
    a = select(c, binary(c, "eq", b, 0), a, b);
    b = rest;
  }
  return class_of(a.dtype()) == FE_CLASS_UINT ? a : unary(c, "abs", a);
}
void gcd(Context& c) {
  const DType dtype = c.result().dtype;
  c.give(common_divisor(c, c.operand("self", dtype), c.operand("other", dtype)));
}
/// The least common multiple; 0 where both numbers are.
void lcm(Context& c) {
  const DType dtype = c.result().dtype;
  const Value a = c.operand("self", dtype), b = c.operand("other", dtype);
  const Value multiple = binary(c, "mul", binary(c, "div", a, common_divisor(c, a, b)), b);
  c.give(class_of(dtype) == FE_CLASS_UINT ? multiple : unary(c, "abs", multiple));
}

/// The quotient, rounded as `mode` says.
Value divided(Context& c, Value a, Value b, std::string_view mode) {
  if (mode.empty()) return binary(c, "div", a, b);
  if (is_float(a.dtype())) {
    if (mode == "trunc") return unary(c, "trunc", binary(c, "div", a, b));
    // As PyTorch and Python: from the remainder, so that the quotient of an exact division is exact.
    const Value rest = binary(c, "remainder_trunc", a, b);
    const Value whole = unary(c, "round", binary(c, "div", binary(c, "sub", a, rest), b));
    const Value apart = binary(c, "ne", binary(c, "lt", rest, 0), binary(c, "lt", b, 0));
    const Value below = binary(c, "logical_and", binary(c, "ne", rest, 0), apart);
    const Value quotient = binary(c, "sub", whole, cast_to(c, below, a.dtype()));
    return select(c, binary(c, "eq", b, 0), binary(c, "div", a, b), quotient);
  }
  const Value quotient = binary(c, "div", a, b);
  if (mode == "trunc" || class_of(a.dtype()) == FE_CLASS_UINT) return quotient;
  // The quotient was rounded up where the signs differ and there is a remainder. (a - remainder) / b would
  // overflow at the ends of the type.
  const Value apart = binary(c, "ne", binary(c, "lt", a, 0), binary(c, "lt", b, 0));
  const Value above = binary(c, "logical_and", binary(c, "ne", binary(c, "mod", a, b), 0), apart);
  return binary(c, "sub", quotient, cast_to(c, above, a.dtype()));
}
void div(Context& c) {
  const DType dtype = c.result().dtype;
  c.give(divided(c, c.operand("self", dtype), c.operand("other", dtype), c.text("rounding_mode", "")));
}
void floor_divide(Context& c) {
  const DType dtype = c.result().dtype;
  c.give(divided(c, c.operand("self", dtype), c.operand("other", dtype), "floor"));
}

constexpr OpEntry divide_entries[] = {
    {"aten.div.Tensor", "self other", div},
    {"aten.div.Scalar", "self other", div},
    {"aten.div.Tensor_mode", "self other rounding_mode", div},
    {"aten.div.Scalar_mode", "self other rounding_mode", div},
    {"aten.floor_divide.default", "self other", floor_divide},
    {"aten.floor_divide.Scalar", "self other", floor_divide},
    {"aten.gcd.default", "self other", gcd},
    {"aten.lcm.default", "self other", lcm},
};

}  // namespace

std::span<const OpEntry> divide_ops() { return divide_entries; }

}  // namespace ferrite::from_torch
