// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Elementwise mathematics as plain LLVM IR: no library calls, no branches, any lane count, any target.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <array>
#include <string_view>

#include "ferrite/dtype.hpp"

namespace ferrite::emitter {

/// The largest error of a function, in units in the last place of the result; the tests enforce it.
struct MathAccuracy {
  std::string_view function;
  double f32;
  double f64;
};

/// One row per function whose result is rounded; every other function of VectorMath is exact or correctly
/// rounded. sin, cos and tan: for |x| up to VectorMath::kTrigonometricRangeF32 and kTrigonometricRangeF64.
/// The machine's power of two (MathInstructions::exp2) adds its error to that of exp in f32.
inline constexpr std::array kMathAccuracy = {
    MathAccuracy{"exp", 1.0, 1.0},   MathAccuracy{"exp2", 1.0, 1.0},  MathAccuracy{"expm1", 2.0, 2.0},
    MathAccuracy{"log", 1.0, 1.0},   MathAccuracy{"log2", 1.5, 1.5},  MathAccuracy{"log1p", 1.5, 1.5},
    MathAccuracy{"sin", 2.0, 2.0},   MathAccuracy{"cos", 2.0, 2.0},   MathAccuracy{"tan", 3.5, 3.5},
    MathAccuracy{"asin", 3.0, 3.0},  MathAccuracy{"acos", 1.5, 1.5},  MathAccuracy{"atan", 2.0, 2.0},
    MathAccuracy{"atan2", 2.0, 2.0}, MathAccuracy{"sinh", 3.0, 3.0},  MathAccuracy{"cosh", 2.0, 2.0},
    MathAccuracy{"tanh", 3.0, 3.0},  MathAccuracy{"asinh", 2.5, 2.5}, MathAccuracy{"acosh", 2.5, 2.5},
    MathAccuracy{"atanh", 2.5, 2.5}, MathAccuracy{"erf", 1.5, 1.5},   MathAccuracy{"pow", 1.5, 1.5},
    MathAccuracy{"rsqrt", 1.5, 1.5},
};

/// The vector instructions that a machine has. Missing ones are emulated with others, also on vectors.
struct MathInstructions {
  bool fused_multiply_add;
  bool rounding;  ///< rounding to integers
  bool division;  ///< vector division costs no more than a few multiply-adds
  /// The function from float to float that is the machine's 2 to the power of an f32, within 2 units in the
  /// last place; it may flush denormals. Empty: there is none.
  std::string_view exp2 = {};
};

/// Emits y = f(x...) lane by lane at the builder's insertion point.
///
/// Types: the floating operands of a call share one LLVM type, float or double or a fixed vector of one of
/// them, and the result has that type unless stated. f32 computes in f32 and f64 in f64. Special values (NaN,
/// infinities, signed zeros, overflow, results that underflow into denormals) follow C99 Annex F. Denormals
/// are neither flushed on input nor on output, unless the code around it asks the hardware to. Emitted
/// instructions carry no fast-math flags, whatever the builder's are. Multiply-add is the explicit llvm.fma
/// where the machine has it. Where it has not, results differ in the last places and keep the same bounds.
/// Errors: an operand of another type is a bug of the caller (assert). Thread-safety: that of the builder.
/// Coefficients: minimax fits by the Remez exchange (tools/fit_polynomials.py).
class VectorMath {
 public:
  using Value = llvm::Value;

  /// sin, cos and tan reduce their argument by a three-part pi/2 and hold their accuracy up to these
  /// magnitudes; past them sin and cos stay in [-1, 1] without being accurate.
  static constexpr double kTrigonometricRangeF32 = 1e6;
  static constexpr double kTrigonometricRangeF64 = 1e12;

  VectorMath(llvm::IRBuilderBase& builder, MathInstructions has) : builder_(builder), has_(has) {}

  Value* exp(Value* x);
  /// The same bits as exp(x), for x <= 0 or NaN.
  Value* exp_of_negative(Value* x);
  Value* exp2(Value* x);
  /// f32: the machine's power of two, which may flush denormals, where it has one (MathInstructions::exp2);
  /// else exp2(x).
  Value* fast_exp2(Value* x);
  Value* expm1(Value* x);
  Value* log(Value* x);
  Value* log2(Value* x);
  Value* log1p(Value* x);
  Value* sin(Value* x);
  Value* cos(Value* x);
  Value* tan(Value* x);
  Value* asin(Value* x);
  Value* acos(Value* x);
  Value* atan(Value* x);
  /// The angle of (x, y) in (-pi, pi]; C99's values at zeros and infinities.
  Value* atan2(Value* y, Value* x);
  Value* sinh(Value* x);
  Value* cosh(Value* x);
  Value* tanh(Value* x);
  Value* asinh(Value* x);
  Value* acosh(Value* x);
  Value* atanh(Value* x);
  Value* erf(Value* x);
  /// 1 + erf(x), twice the normal distribution function of sqrt(2) x; f32: at most the error of 1 + erf(x).
  Value* one_plus_erf(Value* x);
  /// x to the power y, with all of C99's special cases: pow(1, NaN) = pow(NaN, 0) = 1, odd integers keep x's
  /// sign.
  Value* pow(Value* x, Value* y);

  /// a b + c rounded once; without the instruction the error is up to 0.5 + 2^-30 units in the last place,
  /// and an f64 product below 2^-969 or a factor above 2^996 is rounded before the sum.
  Value* fma(Value* a, Value* b, Value* c);
  /// Correctly rounded.
  Value* sqrt(Value* x);
  /// 1 / sqrt(x), two roundings.
  Value* rsqrt(Value* x);
  /// 1 / x, correctly rounded.
  Value* reciprocal(Value* x);
  Value* floor(Value* x);
  Value* ceil(Value* x);
  /// To the nearest integer, halves to even.
  Value* round_even(Value* x);
  Value* trunc(Value* x);
  Value* abs(Value* x);
  /// -1, 1, or x itself when it is a zero or NaN.
  Value* sign(Value* x);
  /// C's fmod: exact, with x's sign. The one function that a target may turn into a library call (fmod,
  /// fmodf).
  Value* fmod(Value* x, Value* y);
  /// The smaller operand; NaN if either is NaN. For zeros of both signs, either one.
  Value* min_nan(Value* a, Value* b);
  /// The larger operand; NaN if either is NaN. For zeros of both signs, either one.
  Value* max_nan(Value* a, Value* b);

  /// Rounds toward zero to `integer`, a scalar integer type. Values out of range saturate, and NaN becomes 0.
  /// Returns `integer` or a vector of it with x's lanes.
  Value* float_to_int_saturating(Value* x, llvm::IntegerType* integer, bool is_signed);

  /// bf16 bits (i16 or a vector of it) to f32, exact.
  Value* widen_bf16(Value* bits);
  /// f32 to bf16 bits (i16 or a vector of it): nearest, halves to even; a NaN stays a (quiet) NaN of its
  /// sign.
  Value* narrow_bf16(Value* x);
  /// half (or a vector of it) to f32, exact.
  Value* widen_f16(Value* x);
  /// f32 to half (or a vector of it): nearest, halves to even.
  Value* narrow_f16(Value* x);
  /// The bits of an 8-bit float (i8 or a vector of it) to f32, exact; for formats without infinities.
  Value* widen_f8(Value* bits, DType dtype);
  /// f32 to the bits of an 8-bit float: nearest, halves to even; values out of range as in f8_bits().
  Value* narrow_f8(Value* x, DType dtype);
  /// Rounds f64 to an f32 that later rounds to the same narrower float as x: truncates, and sets the last bit
  /// unless exact.
  Value* round_to_odd(Value* x);

 private:
  llvm::IRBuilderBase& builder_;
  MathInstructions has_;
};

}  // namespace ferrite::emitter
