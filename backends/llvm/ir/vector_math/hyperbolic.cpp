// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The hyperbolic functions and their inverses, erf and pow.
#include "ferrite/emitter/vector_math.h"

#include "backends/llvm/ir/vector_math/coefficients.h"
#include "backends/llvm/ir/vector_math/exp_log_core.h"

#include <numbers>

namespace ferrite::emitter {
namespace {

using namespace coefficients;

/// From here on asinh(x) and acosh(x) equal log(1 + x) + log(2) in the format; x^2 does not overflow below.
double logarithm_suffices_from(Lanes x) { return x.pick(0x1p26, 0x1p55); }

/// log(1 + argument), plus log(2) in lanes where `doubled` is set.
Lanes log1p_doubled(Lanes argument, Lanes doubled) {
  return log1p_lanes(argument) +
         select(doubled, argument.constant(std::numbers::ln2), argument.constant(0.0));
}

/// log2(x) for finite x > 0 as a sum of two numbers of the format, with a relative error of about 2^-(p + 12)
/// for p bits of significand. log2(1 + f) = 2 log2(e) atanh(s) with s = f / (2 + f), and atanh(s) = s (1 +
/// s^2/3 + s^4 Q(s^2)). All terms except Q are kept in two parts (Dekker's sums and products).
struct SplitLanes {
  Lanes high;
  Lanes low;
};

SplitLanes log2_split(Lanes x) {
  const auto [e, f] = split_for_log(x);
  const Lanes sum = f + 2.0;
  const Lanes sum_low = f - (sum - 2.0);
  const Lanes inverse = 1.0 / sum;
  const Lanes s = f * inverse;
  const Lanes s_low = multiply_add(-s, sum_low, fma(-s, sum, f)) * inverse;

  const Lanes square = s * s;
  const Lanes square_low = multiply_add(s + s, s_low, product_error(s, s, square));
  const SplitConstant third = x.pick(SplitConstant{0x1.555556p-2, -0x1.555556p-27},
                                     SplitConstant{0x1.5555555555555p-2, 0x1.5555555555555p-56});
  const Lanes cubic = square * third.high;
  const Lanes cubic_low =
      product_error(square, third.high, cubic) + multiply_add(square, third.low, square_low * third.high);
  const Lanes rest = square * square * polynomial(square, kAtanhF32, kAtanhF64);
  const Lanes series = cubic + rest;
  const Lanes series_low = ((cubic - series) + rest) + cubic_low;

  const SplitConstant log2e = log2_of_e(x);
  const Lanes scaled = s * (2.0 * log2e.high);
  const Lanes scaled_low = product_error(s, 2.0 * log2e.high, scaled) +
                           multiply_add(s_low, 2.0 * log2e.high, s * (2.0 * log2e.low));
  const Lanes product = scaled * series;
  const Lanes product_low =
      product_error(scaled, series, product) + multiply_add(scaled, series_low, scaled_low * series);
  const Lanes fraction_log = scaled + product;
  const Lanes fraction_low = ((scaled - fraction_log) + product) + (scaled_low + product_low);

  const Lanes high = e + fraction_log;
  return {high, ((e - high) + fraction_log) + fraction_low};
}

/// 1 - erf(a) for a >= 0 (f64: a >= 1), with an error that is small relative to 1; 0 from the point where
/// erf(a) rounds to 1.
Lanes complement_of_erf(Lanes a) {
  if (a.is_f32())
    return select(a > 4.0, a.constant(0.0), exp2_of_product(-a, polynomial(a, kErfcExponentF32)));
  constexpr double last = 6.0, middle = (last + 1.0) / 2.0, radius = (last - 1.0) / 2.0;
  const Lanes held = clamp(a, 1.0, last);
  const Lanes tail = polynomial((held - middle) * (1.0 / radius), kErfTailF64);
  return exp_scaled(-multiply_add(held, held, tail), 0);
}

Lanes is_integer(Lanes x) { return x.rounded(llvm::Intrinsic::trunc) == x; }

}  // namespace

llvm::Value* VectorMath::sinh(Value* operand) {
  const MathScope lanes(builder_, has_);
  const Lanes x = lanes(operand);
  // With m = exp(|x|) - 1: sinh = (m + m / (m + 1)) / 2. It is computed on m / 4, which stays finite as long
  // as sinh does.
  const Lanes quarter = expm1_scaled(absolute(x), 2);
  const Lanes magnitude = (quarter + quarter / multiply_add(quarter, 4.0, 1.0)) * 2.0;
  return select(absolute(x) < x.format().linear_below, x, copy_sign(magnitude, x));
}

llvm::Value* VectorMath::cosh(Value* operand) {
  const MathScope lanes(builder_, has_);
  const Lanes half = exp_scaled(absolute(lanes(operand)), 1);
  return half + 0.25 / half;
}

llvm::Value* VectorMath::tanh(Value* operand) {
  const MathScope lanes(builder_, has_);
  const Lanes x = lanes(operand);
  // With m = exp(2|x|) - 1: tanh = m / (m + 2). It is 1 from the clamp on.
  const Lanes m = expm1_scaled(clamp(absolute(x), 0.0, x.pick(10.0, 20.0)) * 2.0, 0);
  return select(absolute(x) < x.format().linear_below, x, copy_sign(m / (m + 2.0), x));
}

llvm::Value* VectorMath::asinh(Value* operand) {
  const MathScope lanes(builder_, has_);
  const Lanes x = lanes(operand);
  // asinh(x) = log(1 + x + x^2 / (1 + sqrt(1 + x^2))) for x >= 0.
  const Lanes magnitude = absolute(x);
  const Lanes large = magnitude > logarithm_suffices_from(x);
  const Lanes square = magnitude * magnitude;
  const Lanes argument = magnitude + square / (square_root(square + 1.0) + 1.0);
  const Lanes result = log1p_doubled(select(large, magnitude, argument), large);
  return select(magnitude < x.format().linear_below, x, copy_sign(result, x));
}

llvm::Value* VectorMath::acosh(Value* operand) {
  const MathScope lanes(builder_, has_);
  const Lanes x = lanes(operand);
  // With t = x - 1: acosh(x) = log(1 + t + sqrt(t^2 + 2t)); the root is NaN below 1.
  const Lanes t = x - 1.0;
  const Lanes large = x > logarithm_suffices_from(x);
  const Lanes argument = t + square_root(multiply_add(t, t, t * 2.0));
  const Lanes result = log1p_doubled(select(large, x, argument), large);
  return select(x < 1.0, x.quiet_nan(), result);
}

llvm::Value* VectorMath::atanh(Value* operand) {
  const MathScope lanes(builder_, has_);
  const Lanes x = lanes(operand);
  // atanh(x) = log(1 + 2x / (1 - x)) / 2 for x >= 0. Beyond 1 the argument is below -1, which gives NaN.
  const Lanes magnitude = absolute(x);
  const Lanes result = log1p_lanes((magnitude + magnitude) / (1.0 - magnitude)) * 0.5;
  return select(magnitude < x.format().linear_below, x, copy_sign(result, x));
}

llvm::Value* VectorMath::erf(Value* operand) {
  const MathScope lanes(builder_, has_);
  const Lanes x = lanes(operand);
  const Lanes magnitude = absolute(x);
  const Lanes small = multiply_add(x, polynomial(x * x, kErfF32, kErfF64), x);
  // From 1 on, the complement is at most 0.16, which reduces the effect of its error.
  return select(magnitude < 1.0, small, copy_sign(1.0 - complement_of_erf(magnitude), x));
}

llvm::Value* VectorMath::one_plus_erf(Value* operand) {
  const MathScope lanes(builder_, has_);
  const Lanes x = lanes(operand);
  if (!x.is_f32()) return x.with(erf(x)) + 1.0;
  if (x.machine().division) {
    // x P(x^2) / Q(x^2) + 1: half the operations of the exponential, and twice its error. Beyond the clamp,
    // erf is 1 in the format, and the sum is slightly below 0, or 2. It has to be exactly 0 there, since gelu
    // multiplies it with a possibly large number.
    const Lanes held = clamp(x, -3.94, 3.94);
    const Lanes square = held * held;
    const Lanes below = polynomial(square, kErfQuotientBelowF32);
    const Lanes sum = multiply_add(held, polynomial(square, kErfQuotientAboveF32), below);
    return select(sum < 0.0, x.constant(0.0), sum) / below;
  }
  // From the complement of |x|: 2 - complement or the complement itself. This needs neither a branch for
  // small values nor a difference that cancels.
  const Lanes complement = complement_of_erf(absolute(x));
  return select(sign_bit(x), complement, 2.0 - complement);
}

llvm::Value* VectorMath::pow(Value* base, Value* exponent) {
  const MathScope lanes(builder_, has_);
  const Lanes x = lanes(base);
  const Lanes y = lanes(exponent);
  const Lanes magnitude = absolute(x);
  const Lanes zero = x.constant(0.0);
  const Lanes one = x.constant(1.0);

  const SplitLanes log2 = log2_split(magnitude);
  const Lanes high = y * log2.high;
  const Lanes low = product_error(y, log2.high, high) + y * log2.low;
  Lanes result = exp2_split(high, low);

  // Special magnitudes: 0 and infinity to a power of either sign, 1 to an infinite power.
  const Lanes falling = y < 0.0;
  result = select(magnitude == 0.0, select(falling, x.infinity(), zero), result);
  result = select(magnitude == x.infinity(), select(falling, zero, x.infinity()), result);
  result = select(magnitude == one, one, result);

  // A negative base: NaN unless y is an integer (or x infinite); negative if y is odd.
  const Lanes whole = is_integer(y);
  const Lanes odd = whole & !is_integer(y * 0.5);
  const Lanes undefined = (x < 0.0) & (x > -x.infinity()) & !whole;
  result = select(undefined, x.quiet_nan(), result);
  result = select(odd & sign_bit(x), -result, result);

  result = select(unordered(x, y), x + y, result);
  return select((y == 0.0) | (x == one), one, result);
}

}  // namespace ferrite::emitter
