// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Notation for the vector math's algorithms: an SSA value with operators that emit the instruction.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <cassert>
#include <cstdint>
#include <span>

namespace ferrite::emitter {

/// The numbers that describe an IEEE binary format.
struct FloatFormat {
  unsigned bits;
  unsigned fraction_bits;
  int bias;
  /// Adding it to a small value rounds that to an integer, which then stands in the low bits: 1.5 *
  /// 2^fraction_bits.
  double rounder;
  double smallest_normal;
  /// Where |x| is below it, any f(x) = x + O(x^2) is x to within half a unit in the last place.
  double linear_below;
};

inline constexpr FloatFormat kF32Format{32, 23, 127, 0x1.8p23, 0x1p-126, 0x1p-25};
inline constexpr FloatFormat kF64Format{64, 52, 1023, 0x1.8p52, 0x1p-1022, 0x1p-54};

/// A value with its builder. Arithmetic on floating lanes and on the integer lanes of bits() is by operator.
class Lanes {
 public:
  Lanes(llvm::IRBuilderBase& builder, llvm::Value* value) : builder_(&builder), value_(value) {}

  // Implicit, so that an algorithm ends in `return result`.
  operator llvm::Value*() const { return value_; }  // NOLINT(google-explicit-constructor)

  llvm::Type* type() const { return value_->getType(); }
  bool is_f32() const { return type()->getScalarType()->isFloatTy(); }
  const FloatFormat& format() const { return is_f32() ? kF32Format : kF64Format; }

  /// The f32 or the f64 one of a pair of constants, by the lanes' type.
  template <typename T>
  T pick(T f32, T f64) const {
    return is_f32() ? f32 : f64;
  }
  Lanes with(llvm::Value* value) const { return {*builder_, value}; }
  Lanes constant(double value) const { return with(llvm::ConstantFP::get(type(), value)); }
  Lanes infinity() const { return with(llvm::ConstantFP::getInfinity(type())); }
  Lanes quiet_nan() const { return with(llvm::ConstantFP::getQNaN(type())); }
  Lanes integer(std::uint64_t value) const { return with(llvm::ConstantInt::get(integer_type(), value)); }

  /// Floating lanes as integers of the same width, and back.
  Lanes bits() const { return with(builder_->CreateBitCast(value_, integer_type())); }
  Lanes as_float() const {
    llvm::Type* scalar =
        type()->getScalarSizeInBits() == 32 ? builder_->getFloatTy() : builder_->getDoubleTy();
    return with(builder_->CreateBitCast(value_, type()->getWithNewType(scalar)));
  }

  friend Lanes operator+(Lanes a, Lanes b) {
    return a.with(a.floating() ? a.builder_->CreateFAdd(a, b) : a.builder_->CreateAdd(a, b));
  }
  friend Lanes operator-(Lanes a, Lanes b) {
    return a.with(a.floating() ? a.builder_->CreateFSub(a, b) : a.builder_->CreateSub(a, b));
  }
  friend Lanes operator*(Lanes a, Lanes b) { return a.with(a.builder_->CreateFMul(a, b)); }
  friend Lanes operator/(Lanes a, Lanes b) { return a.with(a.builder_->CreateFDiv(a, b)); }
  friend Lanes operator+(Lanes a, double b) { return a + a.constant(b); }
  friend Lanes operator-(Lanes a, double b) { return a - a.constant(b); }
  friend Lanes operator-(double a, Lanes b) { return b.constant(a) - b; }
  friend Lanes operator*(Lanes a, double b) { return a * a.constant(b); }
  friend Lanes operator/(double a, Lanes b) { return b.constant(a) / b; }
  friend Lanes operator-(Lanes a) { return a.with(a.builder_->CreateFNeg(a)); }
  friend Lanes operator&(Lanes a, Lanes b) { return a.with(a.builder_->CreateAnd(a, b)); }
  friend Lanes operator|(Lanes a, Lanes b) { return a.with(a.builder_->CreateOr(a, b)); }
  friend Lanes operator^(Lanes a, Lanes b) { return a.with(a.builder_->CreateXor(a, b)); }
  friend Lanes operator!(Lanes a) { return a.with(a.builder_->CreateNot(a)); }
  friend Lanes operator<<(Lanes a, unsigned count) { return a.with(a.builder_->CreateShl(a, count)); }
  /// Shifts zeros in.
  friend Lanes operator>>(Lanes a, unsigned count) { return a.with(a.builder_->CreateLShr(a, count)); }
  Lanes shift_right_signed(unsigned count) const { return with(builder_->CreateAShr(value_, count)); }

  // Comparisons of floating lanes are false for NaN; equality of integer lanes is that of bits.
  friend Lanes operator<(Lanes a, Lanes b) { return a.with(a.builder_->CreateFCmpOLT(a, b)); }
  friend Lanes operator>(Lanes a, Lanes b) { return a.with(a.builder_->CreateFCmpOGT(a, b)); }
  friend Lanes operator==(Lanes a, Lanes b) {
    return a.with(a.floating() ? a.builder_->CreateFCmpOEQ(a, b) : a.builder_->CreateICmpEQ(a, b));
  }
  friend Lanes operator<(Lanes a, double b) { return a < a.constant(b); }
  friend Lanes operator>(Lanes a, double b) { return a > a.constant(b); }
  friend Lanes operator==(Lanes a, double b) { return a == a.constant(b); }
  friend Lanes unordered(Lanes a, Lanes b) { return a.with(a.builder_->CreateFCmpUNO(a, b)); }
  /// Sign bit set (also of -0).
  friend Lanes sign_bit(Lanes x) {
    const Lanes bits = x.bits();
    return x.with(x.builder_->CreateICmpSLT(bits, bits.integer(0)));
  }

  friend Lanes select(Lanes condition, Lanes yes, Lanes no) {
    return yes.with(yes.builder_->CreateSelect(condition, yes, no));
  }
  friend Lanes fma(Lanes a, Lanes b, Lanes c) {
    return a.with(a.builder_->CreateIntrinsic(llvm::Intrinsic::fma, {a.type()}, {a, b, c}));
  }
  friend Lanes fma(Lanes a, double b, Lanes c) { return fma(a, a.constant(b), c); }
  friend Lanes fma(Lanes a, Lanes b, double c) { return fma(a, b, a.constant(c)); }
  friend Lanes fma(Lanes a, double b, double c) { return fma(a, a.constant(b), a.constant(c)); }
  Lanes call(llvm::Intrinsic::ID function) const {
    return with(builder_->CreateUnaryIntrinsic(function, value_));
  }
  friend Lanes absolute(Lanes x) { return x.call(llvm::Intrinsic::fabs); }
  friend Lanes square_root(Lanes x) { return x.call(llvm::Intrinsic::sqrt); }
  friend Lanes copy_sign(Lanes magnitude, Lanes sign) {
    return sign.with(sign.builder_->CreateBinaryIntrinsic(llvm::Intrinsic::copysign, magnitude, sign));
  }

  /// x held in [low, high]; the order of the comparisons lets NaN pass, in one min and one max instruction.
  friend Lanes clamp(Lanes x, double low, double high) {
    const Lanes lowest = x.constant(low);
    const Lanes highest = x.constant(high);
    x = select(highest < x, highest, x);
    return select(lowest > x, lowest, x);
  }

  /// c0 + c1 x + c2 x^2 + ..., lowest power first.
  friend Lanes polynomial(Lanes x, std::span<const double> coefficients) {
    assert(coefficients.size() >= 2);
    Lanes sum = x.constant(coefficients.back());
    for (std::size_t power = coefficients.size() - 1; power-- > 0;) sum = fma(sum, x, coefficients[power]);
    return sum;
  }
  friend Lanes polynomial(Lanes x, std::span<const double> f32, std::span<const double> f64) {
    return polynomial(x, x.pick(f32, f64));
  }

 private:
  bool floating() const { return type()->isFPOrFPVectorTy(); }
  llvm::Type* integer_type() const {
    return type()->getWithNewType(builder_->getIntNTy(type()->getScalarSizeInBits()));
  }

  llvm::IRBuilderBase* builder_;
  llvm::Value* value_;
};

/// A constant of about twice the format's precision: high is the nearest of the format, low the nearest of
/// the rest.
struct SplitConstant {
  double high;
  double low;
};

/// Opens a function of VectorMath: fast-math flags are off while it lives, and x is checked.
class MathScope {
 public:
  explicit MathScope(llvm::IRBuilderBase& builder) : guard_(builder), builder_(builder) {
    builder.clearFastMathFlags();
  }
  Lanes operator()(llvm::Value* x) const {
    [[maybe_unused]] const llvm::Type* scalar = x->getType()->getScalarType();
    assert(scalar->isFloatTy() || scalar->isDoubleTy());
    return {builder_, x};
  }

 private:
  llvm::IRBuilderBase::FastMathFlagGuard guard_;
  llvm::IRBuilderBase& builder_;
};

}  // namespace ferrite::emitter
