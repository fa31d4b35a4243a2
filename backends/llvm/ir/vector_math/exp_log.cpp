// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// exp, exp2, expm1, log, log2, log1p and their kernels.
//
// Exponentials: x = n log(2) + r with |r| <= log(2)/2, a polynomial in r, and 2^n made in the exponent field.
// Logarithms: x = 2^e (1 + f), a polynomial in f for log(1 + f) - f, which is small against f.
#include "ferrite/emitter/vector_math.h"

#include "backends/llvm/ir/vector_math/coefficients.h"
#include "backends/llvm/ir/vector_math/exp_log_core.h"

#include <cmath>
#include <numbers>

namespace ferrite::emitter {
namespace {

using namespace coefficients;

/// x rounded to an integer, in two forms: as a float, and as integer bits whose low half holds (integer +
/// offset).
struct Rounded {
  Lanes value;
  Lanes offset_bits;
};

/// Rounds x * factor to an integer. Adding a number whose ulp is 1 rounds, and leaves the integer in the low
/// bits.
Rounded round_product(Lanes x, Lanes factor, int offset) {
  const double rounder = x.format().rounder + offset;
  const Lanes shifted = multiply_add(x, factor, rounder);
  return {shifted - rounder, shifted.bits()};
}
Rounded round_product(Lanes x, double factor, int offset) {
  return round_product(x, x.constant(factor), offset);
}

/// x - n log(2). The first step is exact because n has few bits.
Lanes reduce_by_log2(Lanes x, Lanes n) {
  const SplitConstant log2 = log_of_2(x);
  return multiply_add(n, -log2.low, multiply_add(n, -log2.high, x));
}

/// exp(r) for |r| <= log(2)/2. Without a fused multiply-add, the rounding error of 1 + r is added separately:
/// two more roundings would exceed the bound.
Lanes exp_reduced(Lanes r) {
  const Lanes rest = polynomial(r, kExpF32, kExpF64);
  if (r.machine().fused_multiply_add) return multiply_add(multiply_add(rest, r, 1.0), r, 1.0);
  const Lanes sum = r + 1.0;
  return sum + (((1.0 - sum) + r) + r * r * rest);
}

/// 2^r for |r| <= 1/2.
Lanes exp2_reduced(Lanes r) {
  if (r.machine().fused_multiply_add) return multiply_add(polynomial(r, kExp2F32, kExp2F64), r, 1.0);
  return exp_reduced(r * std::numbers::ln2);
}

/// value * 2^n for offset_bits = n + 2 bias. It multiplies with two factors that are normal numbers, so that
/// n may lead to a denormal, rounded once, or to an overflow. The shifts drop the rounder's own bits.
Lanes scale_by_halves(Lanes value, Lanes offset_bits) {
  const unsigned shift = value.format().fraction_bits;
  const Lanes first = (offset_bits >> 1) << shift;
  const Lanes second = (offset_bits << shift) - first;
  return value * first.as_float() * second.as_float();
}

/// log(1 + f) - f.
Lanes log1p_tail(Lanes f) { return f * f * polynomial(f, kLogF32, kLogF64); }

/// exp(x) of f32 lanes by the machine's power of two: x = (n + r) log(2), and n is an integer from -126 to
/// 127. So 2^n is a normal number. Beyond these n, |r| exceeds 1/2, and the product 2^r 2^n becomes a
/// denormal, which is rounded once, zero or infinity. A NaN is in r.
Lanes exp_by_machine(Lanes x) {
  const SplitConstant factor = log2_of_e(x);
  const int bias = x.format().bias;
  const double offset = x.format().rounder + bias;
  const Lanes shifted = clamp_numbers(multiply_add(x, factor.high, offset), offset - bias + 1, offset + bias);
  const Lanes n = shifted - offset;
  const Lanes r = multiply_add(x, factor.low, multiply_add(x, factor.high, -n));
  return r.call(x.machine().exp2) * (shifted.bits() << x.format().fraction_bits).as_float();
}

bool has_exp2(Lanes x) { return x.is_f32() && !x.machine().exp2.empty() && x.machine().fused_multiply_add; }

/// The results of a logarithm at special values: -infinity at 0, +infinity at +infinity, NaN below 0 and at
/// NaN.
Lanes log_special_values(Lanes x, Lanes result) {
  result = select(x < x.infinity(), result, x);
  result = select(x == 0.0, -x.infinity(), result);
  return select(x < 0.0, x.quiet_nan(), result);
}

}  // namespace

SplitConstant log_of_2(Lanes x) {
  // Without a fused multiply-add, the first part has so few bits that its product with an exponent is exact.
  if (!x.machine().fused_multiply_add)
    return x.pick(SplitConstant{0x1.62e4p-1, 0x1.7f7d1cp-20},
                  SplitConstant{0x1.62e42fefa3p-1, 0x1.3de6af278ece6p-42});
  return x.pick(SplitConstant{0x1.62e43p-1, -0x1.05c61p-29},
                SplitConstant{0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56});
}

SplitConstant log2_of_e(Lanes x) {
  return x.pick(SplitConstant{0x1.715476p+0, 0x1.4ae0cp-26},
                SplitConstant{0x1.71547652b82fep+0, 0x1.777d0ffda0d24p-56});
}

Lanes exp_scaled(Lanes x, int halvings) {
  // Beyond these bounds the result is infinity or 0 for any number of halvings in use.
  x = clamp(x, x.pick(-105.0, -747.0), x.pick(91.0, 712.0));
  const Rounded n = round_product(x, log2_of_e(x).high, 2 * x.format().bias - halvings);
  const Lanes r = reduce_by_log2(x, n.value);
  return scale_by_halves(exp_reduced(r), n.offset_bits);
}

Lanes expm1_scaled(Lanes x, int halvings) {
  // scale = 2^(n - halvings) must stay normal. At the low end the result is -1. At the high end n - halvings
  // = bias, where the result times 2^halvings, or half of it for sinh, exceeds the largest value.
  x = clamp(x, x.pick(-20.0, -40.0), (x.format().bias + halvings + 0.4) * std::numbers::ln2);
  const Rounded n = round_product(x, log2_of_e(x).high, x.format().bias - halvings);
  const Lanes scale = (n.offset_bits << x.format().fraction_bits).as_float();
  const Lanes r = reduce_by_log2(x, n.value);
  const Lanes power_minus_1 = multiply_add(r * r, polynomial(r, kExpF32, kExpF64), r);
  return multiply_add(scale, power_minus_1, scale - 1.0 / (1 << halvings));
}

Lanes exp2_split(Lanes high, Lanes low) {
  const double limit = high.pick(160.0, 1100.0);
  low = select(absolute(high) < limit, low, low.constant(0.0));
  high = clamp(high, -limit, limit);
  const Rounded n = round_product(high, 1.0, 2 * high.format().bias);
  const Lanes r = (high - n.value) + low;
  return scale_by_halves(exp2_reduced(r), n.offset_bits);
}

Lanes exp2_of_product(Lanes a, Lanes b) {
  const Rounded n = round_product(a, b, a.format().bias);
  const Lanes r = multiply_add(a, b, -n.value);
  const Lanes scale = (n.offset_bits << a.format().fraction_bits).as_float();
  return exp2_reduced(r) * scale;
}

LogParts split_for_log(Lanes x) {
  const FloatFormat& format = x.format();
  const int lift = static_cast<int>(format.fraction_bits) + 1;
  const Lanes denormal = x < format.smallest_normal;
  const Lanes bits = select(denormal, x * static_cast<double>(1ULL << lift), x).bits();
  // Subtracting the bits of sqrt(1/2) makes the exponent field count from there, which keeps the fraction
  // around 1.
  const Lanes root_half = x.constant(0x1.6a09e667f3bcdp-1).bits();
  const Lanes exponent = (bits - root_half).shift_right_signed(format.fraction_bits);
  const Lanes fraction = (bits - (exponent << format.fraction_bits)).as_float() - 1.0;
  // The rounder's bits plus a small integer represent the rounder plus that integer.
  const Lanes exponent_value = (exponent + x.constant(format.rounder).bits()).as_float();
  return {exponent_value - select(denormal, x.constant(format.rounder + lift), x.constant(format.rounder)),
          fraction};
}

Lanes log1p_lanes(Lanes x) {
  const SplitConstant log2 = log_of_2(x);
  const Lanes sum = x + 1.0;
  // The exact rounding error of the sum; log(sum + lost) = log(sum) + lost / sum.
  const Lanes back = sum - 1.0;
  const Lanes lost = (1.0 - (sum - back)) + (x - back);
  const auto [e, f] = split_for_log(sum);
  const Lanes low = multiply_add(e, log2.low, log1p_tail(f)) + lost / sum;
  return log_special_values(sum, multiply_add(e, log2.high, f + low));
}

llvm::Value* VectorMath::exp(Value* operand) {
  const MathScope lanes(builder_, has_);
  const Lanes x = lanes(operand);
  return has_exp2(x) ? exp_by_machine(x) : exp_scaled(x, 0);
}

llvm::Value* VectorMath::exp_of_negative(Value* operand) {
  const MathScope lanes(builder_, has_);
  Lanes x = lanes(operand);
  if (has_exp2(x)) return exp_by_machine(x);
  // Raised by `lift`, all exponentials are normal; the last product rounds denormals once. `lift` is odd so
  // that ties in the rounding to n go as in exp_scaled.
  const int lift = x.pick(65, 513);
  const Lanes lowest = x.constant(x.pick(-105.0, -747.0));
  x = select(lowest > x, lowest, x);
  const Rounded n = round_product(x, log2_of_e(x).high, x.format().bias + lift);
  const Lanes scale = (n.offset_bits << x.format().fraction_bits).as_float();
  return exp_reduced(reduce_by_log2(x, n.value)) * scale * std::ldexp(1.0, -lift);
}

llvm::Value* VectorMath::exp2(Value* operand) {
  const MathScope lanes(builder_, has_);
  const Lanes x =
      clamp(lanes(operand), lanes(operand).pick(-152.0, -1077.0), lanes(operand).pick(129.0, 1025.0));
  const Rounded n = round_product(x, 1.0, 2 * x.format().bias);
  const Lanes r = x - n.value;
  return scale_by_halves(exp2_reduced(r), n.offset_bits);
}

llvm::Value* VectorMath::fast_exp2(Value* operand) {
  const MathScope lanes(builder_, has_);
  const Lanes x = lanes(operand);
  return x.is_f32() && !has_.exp2.empty() ? x.call(has_.exp2) : exp2(operand);
}

llvm::Value* VectorMath::expm1(Value* operand) {
  const MathScope lanes(builder_, has_);
  const Lanes x = lanes(operand);
  return select(absolute(x) < x.format().linear_below, x, expm1_scaled(x, 1) * 2.0);
}

llvm::Value* VectorMath::log(Value* operand) {
  const MathScope lanes(builder_, has_);
  const Lanes x = lanes(operand);
  const SplitConstant log2 = log_of_2(x);
  const auto [e, f] = split_for_log(x);
  return log_special_values(x, multiply_add(e, log2.high, f + multiply_add(e, log2.low, log1p_tail(f))));
}

llvm::Value* VectorMath::log2(Value* operand) {
  const MathScope lanes(builder_, has_);
  const Lanes x = lanes(operand);
  const auto [e, f] = split_for_log(x);
  const Lanes tail = log1p_tail(f);
  if (x.machine().fused_multiply_add) {
    const SplitConstant log2e = log2_of_e(x);
    const Lanes low = multiply_add(tail, log2e.high, f * log2e.low);
    return log_special_values(x, e + multiply_add(f, log2e.high, low));
  }
  // The product of the high halves of both factors is exact.
  const SplitConstant log2e =
      x.pick(SplitConstant{0x1.714p+0, 0x1.47652cp-12}, SplitConstant{0x1.715476p+0, 0x1.4ae0bf85ddf44p-26});
  const Lanes f_high = (f.bits() & f.integer(x.pick(0xfffff000ULL, 0xfffffffff8000000ULL))).as_float();
  const Lanes low = ((f - f_high) * log2e.high + f * log2e.low) + tail * log2_of_e(x).high;
  return log_special_values(x, e + (f_high * log2e.high + low));
}

llvm::Value* VectorMath::log1p(Value* operand) {
  const MathScope lanes(builder_, has_);
  const Lanes x = lanes(operand);
  return select(absolute(x) < x.format().linear_below, x, log1p_lanes(x));
}

}  // namespace ferrite::emitter
