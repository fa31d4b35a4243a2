// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Functions of one or a few instructions: roots, rounding, extrema, conversions.
#include "ferrite/emitter/vector_math.h"

#include <bit>

#include "backends/llvm/ir/vector_math/lanes.h"

namespace ferrite::emitter {

namespace {

/// Allows either zero for operands of both signs: distinguishing them doubles the cost of an extremum on x86.
llvm::Value* either_zero(llvm::Value* extreme) {
  if (auto* call = llvm::dyn_cast<llvm::Instruction>(extreme)) call->setHasNoSignedZeros(true);
  return extreme;
}

}  // namespace

llvm::Value* VectorMath::sqrt(Value* x) {
  const MathScope lanes(builder_, has_);
  return square_root(lanes(x));
}

llvm::Value* VectorMath::rsqrt(Value* x) {
  const MathScope lanes(builder_, has_);
  return 1.0 / square_root(lanes(x));
}

llvm::Value* VectorMath::reciprocal(Value* x) {
  const MathScope lanes(builder_, has_);
  return 1.0 / lanes(x);
}

llvm::Value* VectorMath::fma(Value* a, Value* b, Value* c) {
  const MathScope lanes(builder_, has_);
  return emitter::fma(lanes(a), lanes(b), lanes(c));
}

llvm::Value* VectorMath::floor(Value* x) {
  const MathScope lanes(builder_, has_);
  return lanes(x).rounded(llvm::Intrinsic::floor);
}

llvm::Value* VectorMath::ceil(Value* x) {
  const MathScope lanes(builder_, has_);
  return lanes(x).rounded(llvm::Intrinsic::ceil);
}

llvm::Value* VectorMath::round_even(Value* x) {
  const MathScope lanes(builder_, has_);
  return lanes(x).rounded(llvm::Intrinsic::roundeven);
}

llvm::Value* VectorMath::trunc(Value* x) {
  const MathScope lanes(builder_, has_);
  return lanes(x).rounded(llvm::Intrinsic::trunc);
}

llvm::Value* VectorMath::abs(Value* x) {
  const MathScope lanes(builder_, has_);
  return absolute(lanes(x));
}

llvm::Value* VectorMath::sign(Value* operand) {
  const MathScope lanes(builder_, has_);
  const Lanes x = lanes(operand);
  return select((x < 0.0) | (x > 0.0), copy_sign(x.constant(1.0), x), x);
}

llvm::Value* VectorMath::fmod(Value* dividend, Value* divisor) {
  const MathScope lanes(builder_, has_);
  const Lanes x = lanes(dividend), y = lanes(divisor);
  // On some devices, the remainder by an infinite y is x even if x is infinite.
  return select(absolute(x) < x.infinity(), x.with(builder_.CreateFRem(x, y)), x - x);
}

llvm::Value* VectorMath::min_nan(Value* a, Value* b) {
  const MathScope lanes(builder_, has_);
  return either_zero(builder_.CreateMinimum(lanes(a), lanes(b)));
}

llvm::Value* VectorMath::max_nan(Value* a, Value* b) {
  const MathScope lanes(builder_, has_);
  return either_zero(builder_.CreateMaximum(lanes(a), lanes(b)));
}

llvm::Value* VectorMath::float_to_int_saturating(Value* operand, llvm::IntegerType* integer, bool is_signed) {
  const MathScope lanes(builder_, has_);
  const Lanes x = lanes(operand);
  llvm::Type* result = x.type()->getWithNewType(integer);
  const llvm::Intrinsic::ID convert = is_signed ? llvm::Intrinsic::fptosi_sat : llvm::Intrinsic::fptoui_sat;
  return builder_.CreateIntrinsic(convert, {result, x.type()}, {x});
}

llvm::Value* VectorMath::widen_bf16(Value* bits) {
  assert(bits->getType()->getScalarType()->isIntegerTy(16));
  const Lanes wide(builder_, has_,
                   builder_.CreateZExt(bits, bits->getType()->getWithNewType(builder_.getInt32Ty())));
  return (wide << 16).as_float();
}

llvm::Value* VectorMath::narrow_bf16(Value* operand) {
  const MathScope lanes(builder_, has_);
  const Lanes x = lanes(operand);
  assert(x.is_f32());
  const Lanes bits = x.bits();
  const Lanes kept = bits >> 16;
  // Round to nearest even: add half an ulp minus one, plus the last kept bit. This carries for more than
  // half, and for half next to an odd number.
  const Lanes rounded = (bits + x.integer(0x7fff) + (kept & x.integer(1))) >> 16;
  // A NaN's payload may lie in the dropped bits only: set the quiet bit.
  const Lanes chosen = select(unordered(x, x), kept | x.integer(0x40), rounded);
  return builder_.CreateTrunc(chosen, x.type()->getWithNewType(builder_.getInt16Ty()));
}

llvm::Value* VectorMath::widen_f16(Value* x) {
  const MathScope off(builder_, has_);
  assert(x->getType()->getScalarType()->isHalfTy());
  return builder_.CreateFPExt(x, x->getType()->getWithNewType(builder_.getFloatTy()));
}

llvm::Value* VectorMath::narrow_f16(Value* x) {
  const MathScope lanes(builder_, has_);
  return builder_.CreateFPTrunc(lanes(x), x->getType()->getWithNewType(builder_.getHalfTy()));
}

llvm::Value* VectorMath::widen_f8(Value* stored, DType dtype) {
  const MathScope off(builder_, has_);
  const F8Format format = f8_format(dtype);
  assert(format.overflow != format.last);
  const unsigned shift = 23 - static_cast<unsigned>(format.mantissa);
  const auto zero = static_cast<uint32_t>(127 - format.bias) << 23, least = zero + (1u << 23);
  const Lanes bits(builder_, has_,
                   builder_.CreateZExt(stored, stored->getType()->getWithNewType(builder_.getInt32Ty())));
  const Lanes magnitude = bits & bits.integer(0x7f), sign = (bits & bits.integer(0x80)) << 24;
  const Lanes shifted = magnitude << shift;
  const Lanes normal = (shifted + bits.integer(zero)).as_float();
  // A denormal has no leading 1: add one with an exponent, and subtract it again.
  const double smallest = std::bit_cast<float>(least);
  const Lanes tiny = (shifted + bits.integer(least)).as_float() - smallest;
  const Lanes value = select(normal < smallest, tiny, normal).bits() | sign;
  const Lanes is_nan =
      format.one_zero ? bits == bits.integer(format.nan) : magnitude == bits.integer(format.nan);
  return select(is_nan, bits.integer(0x7fc00000) | sign, value).as_float();
}

llvm::Value* VectorMath::narrow_f8(Value* operand, DType dtype) {
  const MathScope lanes(builder_, has_);
  const F8Format format = f8_format(dtype);
  const unsigned shift = 23 - static_cast<unsigned>(format.mantissa);
  const auto zero = static_cast<uint32_t>(127 - format.bias) << 23;
  const Lanes x = lanes(operand);
  assert(x.is_f32());
  const Lanes size = absolute(x), bits = size.bits();
  // Round to nearest even: add half an ulp minus one, plus the last kept bit.
  const Lanes last = (bits >> shift) & x.integer(1);
  const Lanes normal = (bits + last - x.integer(zero - ((1u << (shift - 1)) - 1))) >> shift;
  // Adding a number whose ulp is the smallest denormal rounds the value.
  const uint32_t unit = zero + ((shift + 1) << 23);
  const Lanes tiny = (size + std::bit_cast<float>(unit)).bits() - x.integer(unit);
  Lanes result = select(size < std::bit_cast<float>(zero + (1u << 23)), tiny, normal);
  const Lanes too_large = x.with(builder_.CreateICmpUGT(result, x.integer(format.last)));
  result = select(too_large, x.integer(format.overflow), result);
  if (format.overflow != format.nan) result = select(unordered(x, x), x.integer(format.nan), result);
  const Lanes with_sign = result | ((x.bits() >> 24) & x.integer(0x80));
  if (format.one_zero) result = select(result == x.integer(0), result, with_sign);
  return builder_.CreateTrunc(format.one_zero ? result : with_sign,
                              x.type()->getWithNewType(builder_.getInt8Ty()));
}

llvm::Value* VectorMath::round_to_odd(Value* operand) {
  const MathScope lanes(builder_, has_);
  const Lanes x = lanes(operand);
  const Lanes nearest = x.narrow(), back = nearest.wide();
  const Lanes bits = nearest.bits(), one = nearest.integer(1), none = nearest.integer(0);
  const Lanes truncated = bits - select(absolute(back) > absolute(x), one, none);
  const Lanes inexact = x.with(builder_.CreateFCmpONE(back, x));
  return (truncated | select(inexact, one, none)).as_float();
}

}  // namespace ferrite::emitter
