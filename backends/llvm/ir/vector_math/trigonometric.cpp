// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// sin, cos, tan and their inverses.
//
// sin and cos: x = n pi/2 + r with pi/2 in two or three parts (Cody and Waite), |r| <= pi/4; the low two bits
// of n select sine or cosine of r, and the sign.
#include "ferrite/emitter/vector_math.h"

#include "backends/llvm/ir/vector_math/coefficients.h"
#include "backends/llvm/ir/vector_math/lanes.h"

namespace ferrite::emitter {
namespace {

using namespace coefficients;

struct Quadrant {
  Lanes sine;
  Lanes cosine;
  /// Bit 0: the quadrant swaps sine and cosine; bit 1: it negates.
  Lanes number;
};

/// x - n pi/2 for n of at most 20 bits (f64: 40).
Lanes minus_half_pi_times(Lanes x, Lanes n) {
  // The first of the two parts has 33 bits, so its product is exact on f64 lanes.
  if (x.is_f32() && !x.machine().fused_multiply_add)
    return ((x.wide() - n.wide() * 0x1.921fb544p+0) - n.wide() * 0x1.0b4611a626331p-34).narrow();
  struct HalfPi {
    double high;
    double middle;
    double low;
  };
  const HalfPi half_pi = x.pick(HalfPi{0x1.921fb6p+0, -0x1.777a5cp-25, -0x1.ee59dap-50},
                                HalfPi{0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54, -0x1.f1976b7ed8fbcp-110});
  return multiply_add(n, -half_pi.low, fma(n, -half_pi.middle, fma(n, -half_pi.high, x)));
}

/// Reduces x + shift * pi/2.
Quadrant reduce_to_quadrant(Lanes x, int shift) {
  const double rounder = x.format().rounder + shift;
  const Lanes shifted = multiply_add(x, 0x1.45f306dc9c883p-1, rounder);
  const Lanes n = shifted - rounder;
  Lanes r = minus_half_pi_times(x, n);
  // |r| slightly exceeds pi/4 as n loses fraction bits. If |r| exceeds 1, x is too large for the reduction,
  // and the clamp keeps the result in [-1, 1].
  r = clamp(r, -1.0, 1.0);
  const Lanes square = r * r;
  const Lanes sine = multiply_add(r * square, polynomial(square, kSinF32, kSinF64), r);
  const Lanes cosine =
      multiply_add(square, multiply_add(square, polynomial(square, kCosF32, kCosF64), -0.5), 1.0);
  return {sine, cosine, shifted.bits()};
}

Lanes bit_is_set(Lanes bits, unsigned bit) {
  return !((bits & bits.integer(1ULL << bit)) == bits.integer(0));
}

Lanes sine_of(const Quadrant& quadrant) {
  const unsigned sign_position = quadrant.sine.format().bits - 1;
  const Lanes chosen = select(bit_is_set(quadrant.number, 0), quadrant.cosine, quadrant.sine);
  // Move bit 1 to the sign position; the shifts drop all other bits.
  const Lanes sign = (quadrant.number >> 1) << sign_position;
  return (chosen.bits() ^ sign).as_float();
}

SplitConstant pi_times(Lanes x, double factor) {
  const SplitConstant pi = x.pick(SplitConstant{0x1.921fb6p+1, -0x1.777a5cp-24},
                                  SplitConstant{0x1.921fb54442d18p+1, 0x1.1a62633145c07p-53});
  return {pi.high * factor, pi.low * factor};
}

/// high + low - x, rounded about once.
Lanes minus_from(SplitConstant constant, Lanes x) { return constant.high - (x - constant.low); }

/// asin(x) for |x| <= 1/2, given x^2.
Lanes asin_small(Lanes x, Lanes square) {
  return multiply_add(x * square, polynomial(square, kAsinF32, kAsinF64), x);
}

/// atan(x) for 0 <= x <= 1.
Lanes atan_small(Lanes x) {
  const Lanes square = x * x;
  return multiply_add(x * square, polynomial(square, kAtanF32, kAtanF64), x);
}

}  // namespace

llvm::Value* VectorMath::sin(Value* operand) {
  const MathScope lanes(builder_, has_);
  const Lanes x = lanes(operand);
  return select(absolute(x) < x.format().linear_below, x, sine_of(reduce_to_quadrant(x, 0)));
}

llvm::Value* VectorMath::cos(Value* operand) {
  const MathScope lanes(builder_, has_);
  return sine_of(reduce_to_quadrant(lanes(operand), 1));
}

llvm::Value* VectorMath::tan(Value* operand) {
  const MathScope lanes(builder_, has_);
  const Lanes x = lanes(operand);
  const Quadrant quadrant = reduce_to_quadrant(x, 0);
  const Lanes swapped = bit_is_set(quadrant.number, 0);
  const Lanes numerator = select(swapped, quadrant.cosine, quadrant.sine);
  const Lanes denominator = select(swapped, -quadrant.sine, quadrant.cosine);
  return select(absolute(x) < x.format().linear_below, x, numerator / denominator);
}

llvm::Value* VectorMath::asin(Value* operand) {
  const MathScope lanes(builder_, has_);
  const Lanes x = lanes(operand);
  // Above 1/2: asin(x) = pi/2 - 2 asin(sqrt((1 - x) / 2)).
  const Lanes magnitude = absolute(x);
  const Lanes large = magnitude > 0.5;
  const Lanes half_rest = multiply_add(magnitude, -0.5, 0.5);
  const Lanes square = select(large, half_rest, x * x);
  const Lanes inner = asin_small(select(large, square_root(half_rest), magnitude), square);
  return copy_sign(select(large, minus_from(pi_times(x, 0.5), inner * 2.0), inner), x);
}

llvm::Value* VectorMath::acos(Value* operand) {
  const MathScope lanes(builder_, has_);
  const Lanes x = lanes(operand);
  const Lanes magnitude = absolute(x);
  const Lanes large = magnitude > 0.5;
  const Lanes half_rest = multiply_add(magnitude, -0.5, 0.5);
  const Lanes square = select(large, half_rest, x * x);
  const Lanes inner = asin_small(select(large, square_root(half_rest), x), square);
  const Lanes doubled = inner * 2.0;
  const Lanes outer = select(x < 0.0, minus_from(pi_times(x, 1.0), doubled), doubled);
  return select(large, outer, minus_from(pi_times(x, 0.5), inner));
}

llvm::Value* VectorMath::atan(Value* operand) {
  const MathScope lanes(builder_, has_);
  const Lanes x = lanes(operand);
  const Lanes magnitude = absolute(x);
  const Lanes large = magnitude > 1.0;
  const Lanes inner = atan_small(select(large, 1.0 / magnitude, magnitude));
  return copy_sign(select(large, minus_from(pi_times(x, 0.5), inner), inner), x);
}

llvm::Value* VectorMath::atan2(Value* ordinate, Value* abscissa) {
  const MathScope lanes(builder_, has_);
  const Lanes y = lanes(ordinate);
  const Lanes x = lanes(abscissa);
  const Lanes height = absolute(y);
  const Lanes width = absolute(x);
  const Lanes steep = height > width;
  const Lanes larger = select(steep, height, width);
  Lanes ratio = select(steep, width, height) / larger;
  // C99: the angle is 0 if |x| and |y| are both zero, and pi/4 if both are infinite.
  ratio = select(height == width, select(larger == 0.0, x.constant(0.0), x.constant(1.0)), ratio);
  const Lanes inner = atan_small(ratio);
  const Lanes angle = select(steep, minus_from(pi_times(x, 0.5), inner), inner);
  const Lanes signed_angle = copy_sign(select(sign_bit(x), minus_from(pi_times(x, 1.0), angle), angle), y);
  return select(unordered(x, y), x + y, signed_angle);
}

}  // namespace ferrite::emitter
