// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Notation for the vector math's algorithms: an SSA value with operators that emit the instruction.
#pragma once

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include <cassert>
#include <cstdint>
#include <span>
#include <string_view>

#include "ferrite/emitter/vector_math.h"

namespace ferrite::emitter {

/// The numbers that describe an IEEE binary format.
struct FloatFormat {
  unsigned bits;
  unsigned fraction_bits;
  int bias;
  /// Adding it to a small value rounds the value to an integer, which then occupies the low bits: 1.5 *
  /// 2^fraction_bits.
  double rounder;
  double smallest_normal;
  /// If |x| is below this bound, any f(x) = x + O(x^2) equals x to within half a unit in the last place.
  double linear_below;
};

inline constexpr FloatFormat kF32Format{32, 23, 127, 0x1.8p23, 0x1p-126, 0x1p-25};
inline constexpr FloatFormat kF64Format{64, 52, 1023, 0x1.8p52, 0x1p-1022, 0x1p-54};

/// A value with its builder and the machine's instruction set. Operators emit arithmetic on floating lanes
/// and on the integer lanes of bits().
class Lanes {
 public:
  Lanes(llvm::IRBuilderBase& builder, MathInstructions has, llvm::Value* value)
      : builder_(&builder), has_(has), value_(value) {}

  // Implicit, so that an algorithm may end in `return result`.
  operator llvm::Value*() const { return value_; }  // NOLINT(google-explicit-constructor)

  llvm::Type* type() const { return value_->getType(); }
  bool is_f32() const { return type()->getScalarType()->isFloatTy(); }
  const FloatFormat& format() const { return is_f32() ? kF32Format : kF64Format; }
  const MathInstructions& machine() const { return has_; }

  /// Selects the f32 or the f64 constant of a pair, by the lanes' type.
  template <typename T>
  T pick(T f32, T f64) const {
    return is_f32() ? f32 : f64;
  }
  Lanes with(llvm::Value* value) const { return {*builder_, has_, value}; }
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

  /// f32 lanes as f64 lanes, exactly, and f64 lanes rounded to f32.
  Lanes wide() const {
    return with(builder_->CreateFPExt(value_, type()->getWithNewType(builder_->getDoubleTy())));
  }
  Lanes narrow() const {
    return with(builder_->CreateFPTrunc(value_, type()->getWithNewType(builder_->getFloatTy())));
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
  /// Logical shift: fills with zeros.
  friend Lanes operator>>(Lanes a, unsigned count) { return a.with(a.builder_->CreateLShr(a, count)); }
  Lanes shift_right_signed(unsigned count) const { return with(builder_->CreateAShr(value_, count)); }

  // Comparisons of floating lanes are false for NaN; equality of integer lanes compares bits.
  friend Lanes operator<(Lanes a, Lanes b) { return a.with(a.builder_->CreateFCmpOLT(a, b)); }
  friend Lanes operator>(Lanes a, Lanes b) { return a.with(a.builder_->CreateFCmpOGT(a, b)); }
  friend Lanes operator==(Lanes a, Lanes b) {
    return a.with(a.floating() ? a.builder_->CreateFCmpOEQ(a, b) : a.builder_->CreateICmpEQ(a, b));
  }
  friend Lanes operator<(Lanes a, double b) { return a < a.constant(b); }
  friend Lanes operator>(Lanes a, double b) { return a > a.constant(b); }
  friend Lanes operator==(Lanes a, double b) { return a == a.constant(b); }
  friend Lanes unordered(Lanes a, Lanes b) { return a.with(a.builder_->CreateFCmpUNO(a, b)); }
  /// True if the sign bit is set (also for -0).
  friend Lanes sign_bit(Lanes x) {
    const Lanes bits = x.bits();
    return x.with(x.builder_->CreateICmpSLT(bits, bits.integer(0)));
  }

  friend Lanes select(Lanes condition, Lanes yes, Lanes no) {
    return yes.with(yes.builder_->CreateSelect(condition, yes, no));
  }
  /// a b + c for uses where the rounding of the product is negligible or does not happen: rounded once if the
  /// machine has a fused instruction, else twice.
  friend Lanes multiply_add(Lanes a, Lanes b, Lanes c) {
    return a.has_.fused_multiply_add ? a.fused(b, c) : a * b + c;
  }
  friend Lanes multiply_add(Lanes a, double b, Lanes c) { return multiply_add(a, a.constant(b), c); }
  friend Lanes multiply_add(Lanes a, Lanes b, double c) { return multiply_add(a, b, a.constant(c)); }
  friend Lanes multiply_add(Lanes a, double b, double c) {
    return multiply_add(a, a.constant(b), a.constant(c));
  }
  /// a b - product, exactly, for product = a * b that neither over- nor underflows.
  friend Lanes product_error(Lanes a, Lanes b, Lanes product) {
    if (a.has_.fused_multiply_add) return a.fused(b, -product);
    if (a.is_f32()) return (a.wide() * b.wide() - product.wide()).narrow();
    // Split each factor into two parts of 26 bits, whose products are exact (Veltkamp 1968, Dekker 1971).
    const auto high = [](Lanes x) {
      const Lanes spread = x * 0x1.0000002p27;
      return spread - (spread - x);
    };
    const Lanes a_high = high(a);
    const Lanes a_low = a - a_high;
    const Lanes b_high = high(b);
    const Lanes b_low = b - b_high;
    return (((a_high * b_high - product) + a_high * b_low) + a_low * b_high) + a_low * b_low;
  }
  friend Lanes product_error(Lanes a, double b, Lanes product) {
    return product_error(a, a.constant(b), product);
  }
  /// a b + c, rounded once. On a machine without a fused instruction:
  /// - f32 is computed on f64 lanes. The product is exact there; the sum is rounded to f64 and then to f32.
  ///   If the first rounding ends half way between two f32 numbers, the second may take the farther one: the
  ///   error is at most 0.5 + 2^-30 units in the last place instead of 0.5.
  /// - f64 adds the rounding errors of product and sum (Dekker's product, Knuth's sum) to the sum, with an
  ///   error of at most 0.5 + 2^-53 units. If a part overflows, the result is that of two roundings; a
  ///   product below 2^-969 has lost bits that matter only if the result is equally small.
  friend Lanes fma(Lanes a, Lanes b, Lanes c) {
    if (a.has_.fused_multiply_add) return a.fused(b, c);
    if (a.is_f32()) return (a.wide() * b.wide() + c.wide()).narrow();
    const Lanes product = a * b;
    const Lanes sum = product + c;
    const Lanes back = sum - product;
    const Lanes lost = ((product - (sum - back)) + (c - back)) + product_error(a, b, product);
    // The error terms are meaningless for NaN and infinities, and lose the sign of a zero: keep the plain sum
    // there.
    const Lanes magnitude = absolute(lost);
    return select((magnitude > 0.0) & (magnitude < a.infinity()), sum + lost, sum);
  }
  friend Lanes fma(Lanes a, double b, Lanes c) { return fma(a, a.constant(b), c); }
  Lanes call(llvm::Intrinsic::ID function) const {
    return with(builder_->CreateUnaryIntrinsic(function, value_));
  }
  /// Calls a function of the machine for each lane.
  Lanes call(std::string_view function) const {
    auto* scalar = type()->getScalarType();
    auto* callee_type = llvm::FunctionType::get(scalar, {scalar}, false);
    const auto callee = builder_->GetInsertBlock()->getModule()->getOrInsertFunction(
        llvm::StringRef(function.data(), function.size()), callee_type);
    if (!type()->isVectorTy()) return with(builder_->CreateCall(callee, {value_}));
    llvm::Value* result = value_;
    for (unsigned k = 0; k < llvm::cast<llvm::FixedVectorType>(type())->getNumElements(); ++k)
      result = builder_->CreateInsertElement(
          result, builder_->CreateCall(callee, {builder_->CreateExtractElement(value_, k)}), k);
    return with(result);
  }
  /// One of floor, ceil, trunc and roundeven.
  Lanes rounded(llvm::Intrinsic::ID function) const {
    if (has_.rounding) return call(function);
    // Adding a number whose ulp is 1 rounds the magnitude to an integer, halves to even; larger magnitudes
    // have no fraction. A correction by one follows where that integer is on the wrong side. The sign is
    // restored at the end, for -0 and for results in (-1, 0).
    const Lanes magnitude = absolute(*this);
    const double whole_from = static_cast<double>(std::uint64_t{1} << format().fraction_bits);
    const Lanes nearest = copy_sign((magnitude + whole_from) - whole_from, *this);
    const Lanes zero = constant(0.0);
    const auto step_where = [&](Lanes condition) { return select(condition, constant(1.0), zero); };
    Lanes result = nearest;
    switch (function) {
      case llvm::Intrinsic::floor: result = nearest - step_where(nearest > *this); break;
      case llvm::Intrinsic::ceil: result = nearest + step_where(nearest < *this); break;
      case llvm::Intrinsic::trunc: {
        const Lanes integer = absolute(nearest);
        result = integer - step_where(integer > magnitude);
        break;
      }
      default: break;
    }
    return select(magnitude < whole_from, copy_sign(result, *this), *this);
  }
  friend Lanes absolute(Lanes x) { return x.call(llvm::Intrinsic::fabs); }
  friend Lanes square_root(Lanes x) { return x.call(llvm::Intrinsic::sqrt); }
  friend Lanes copy_sign(Lanes magnitude, Lanes sign) {
    return sign.with(sign.builder_->CreateBinaryIntrinsic(llvm::Intrinsic::copysign, magnitude, sign));
  }

  /// x clamped to [low, high] in one min and one max instruction; their operand order lets NaN pass.
  friend Lanes clamp(Lanes x, double low, double high) {
    const Lanes lowest = x.constant(low);
    const Lanes highest = x.constant(high);
    x = select(highest < x, highest, x);
    return select(lowest > x, lowest, x);
  }

  /// x clamped to [low, high]; NaN becomes one of them.
  friend Lanes clamp_numbers(Lanes x, double low, double high) {
    const auto above = x.builder_->CreateBinaryIntrinsic(llvm::Intrinsic::maxnum, x, x.constant(low));
    return x.with(x.builder_->CreateBinaryIntrinsic(llvm::Intrinsic::minnum, above, x.constant(high)));
  }

  /// c0 + c1 x + c2 x^2 + ..., lowest power first.
  friend Lanes polynomial(Lanes x, std::span<const double> coefficients) {
    assert(coefficients.size() >= 2);
    Lanes sum = x.constant(coefficients.back());
    for (std::size_t power = coefficients.size() - 1; power-- > 0;)
      sum = multiply_add(sum, x, coefficients[power]);
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

  Lanes fused(Lanes b, Lanes c) const {
    return with(builder_->CreateIntrinsic(llvm::Intrinsic::fma, {type()}, {value_, b, c}));
  }

  llvm::IRBuilderBase* builder_;
  MathInstructions has_;
  llvm::Value* value_;
};

Lanes fma(Lanes a, Lanes b, Lanes c);

/// A constant of about twice the format's precision: `high` is a nearby number of the format, `low` the
/// nearest to the remainder.
struct SplitConstant {
  double high;
  double low;
};

/// Opens a function of VectorMath: turns fast-math flags off during its lifetime and checks x.
class MathScope {
 public:
  MathScope(llvm::IRBuilderBase& builder, MathInstructions has)
      : guard_(builder), builder_(builder), has_(has) {
    builder.clearFastMathFlags();
  }
  Lanes operator()(llvm::Value* x) const {
    [[maybe_unused]] const llvm::Type* scalar = x->getType()->getScalarType();
    assert(scalar->isFloatTy() || scalar->isDoubleTy());
    return {builder_, has_, x};
  }

 private:
  llvm::IRBuilderBase::FastMathFlagGuard guard_;
  llvm::IRBuilderBase& builder_;
  MathInstructions has_;
};

}  // namespace ferrite::emitter
