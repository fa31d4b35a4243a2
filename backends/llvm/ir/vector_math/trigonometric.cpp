// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// sin, cos, tan and their inverses.
//
// sin and cos: x = n pi/2 + r with pi/2 in two or three parts (Cody and Waite), |r| <= pi/4; the low two bits
// of n select sine or cosine of r, and the sign. Large angles are reduced in large_angles.h.
#include "ferrite/emitter/vector_math.h"

#include <llvm/IR/MDBuilder.h>

#include "backends/llvm/ir/vector_math/coefficients.h"
#include "backends/llvm/ir/vector_math/lanes.h"
#include "backends/llvm/ir/vector_math/large_angles.h"

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

struct Reduced {
  llvm::Value* rest;    ///< floating lanes
  llvm::Value* number;  ///< integer lanes, of which the lowest two bits count
};

/// As remainder_of_large(), but for x and with the number of x + shift * pi/2.
Reduced reduce_large(llvm::IRBuilderBase& builder, Lanes x, int shift) {
  const auto [rest, number] = remainder_of_large(builder, absolute(x));
  const Lanes negative = sign_bit(x);
  const Lanes other = select(negative, number.integer(0) - number, number);
  return {select(negative, -rest, rest), other + number.integer(static_cast<std::uint64_t>(shift))};
}

/// The values of `common`, or where any lane is outside of the range, those of `rare`. The code of the latter
/// is out of the way of the former.
Reduced unless_large(llvm::IRBuilderBase& builder, Lanes x, const Reduced& common, int shift) {
  const Lanes large = absolute(x) > x.pick(VectorMath::kReducedRangeF32, VectorMath::kReducedRangeF64);
  llvm::Value* any = large;
  if (any->getType()->isVectorTy()) any = builder.CreateOrReduce(any);
  auto* before = builder.GetInsertBlock();
  auto& context = builder.getContext();
  auto* function = before->getParent();
  auto* rare = llvm::BasicBlock::Create(context, "large.angle", function);
  auto* after = llvm::BasicBlock::Create(context, "angle", function);
  builder.CreateCondBr(any, rare, after, llvm::MDBuilder(context).createUnlikelyBranchWeights());
  builder.SetInsertPoint(rare);
  const auto found = reduce_large(builder, x, shift);
  const Lanes rest = select(large, x.with(found.rest), x.with(common.rest));
  const Lanes number = select(large, x.with(found.number), x.with(common.number));
  auto* end = builder.GetInsertBlock();
  builder.CreateBr(after);
  builder.SetInsertPoint(after);
  const auto merged = [&](llvm::Value* of_common, llvm::Value* of_rare) {
    auto* phi = builder.CreatePHI(of_common->getType(), 2);
    phi->addIncoming(of_common, before);
    phi->addIncoming(of_rare, end);
    return phi;
  };
  auto* merged_rest = merged(common.rest, rest);
  return {merged_rest, merged(common.number, number)};
}

/// Reduces x + shift * pi/2.
Quadrant reduce_to_quadrant(llvm::IRBuilderBase& builder, Lanes x, int shift) {
  const double rounder = x.format().rounder + shift;
  const Lanes shifted = multiply_add(x, 0x1.45f306dc9c883p-1, rounder);
  const Lanes n = shifted - rounder;
  const auto reduced = unless_large(builder, x, {minus_half_pi_times(x, n), shifted.bits()}, shift);
  const Lanes r = x.with(reduced.rest);
  const Lanes square = r * r;
  const Lanes sine = multiply_add(r * square, polynomial(square, kSinF32, kSinF64), r);
  const Lanes cosine =
      multiply_add(square, multiply_add(square, polynomial(square, kCosF32, kCosF64), -0.5), 1.0);
  return {sine, cosine, x.with(reduced.number)};
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
  return select(absolute(x) < x.format().linear_below, x, sine_of(reduce_to_quadrant(builder_, x, 0)));
}

llvm::Value* VectorMath::cos(Value* operand) {
  const MathScope lanes(builder_, has_);
  return sine_of(reduce_to_quadrant(builder_, lanes(operand), 1));
}

llvm::Value* VectorMath::tan(Value* operand) {
  const MathScope lanes(builder_, has_);
  const Lanes x = lanes(operand);
  const Quadrant quadrant = reduce_to_quadrant(builder_, x, 0);
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
