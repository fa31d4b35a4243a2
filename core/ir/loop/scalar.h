// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The exact semantics of the scalar primitives (prims.def). An integer or bool value is an int64_t,
// sign-extended from its width; a float value of any width is a double.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "ferrite/dtype.hpp"

namespace ferrite::core::loop::scalar {

/// `value` truncated to the width of an integer type and sign-extended again; bool: 0 or 1.
inline int64_t wrap(DType dtype, int64_t value) {
  if (dtype == DType::bool_) return value != 0;
  const int shift = 64 - bits_of(dtype);
  const auto bits = static_cast<uint64_t>(value) << shift;
  return is_signed(dtype) ? static_cast<int64_t>(bits) >> shift : static_cast<int64_t>(bits >> shift);
}

using ferrite::float_bits;
using ferrite::float_value;

/// Rounds to a float type, to nearest, ties to even.
inline double round_to(DType dtype, double value) { return float_value(dtype, float_bits(dtype, value)); }

inline uint64_t int_bits(DType dtype, int64_t value) {
  const auto bits = static_cast<uint64_t>(wrap(dtype, value));
  return bits_of(dtype) == 64 ? bits : bits & ((uint64_t{1} << bits_of(dtype)) - 1);
}
inline int64_t int_value(DType dtype, uint64_t bits) { return wrap(dtype, static_cast<int64_t>(bits)); }

inline int64_t lowest_int(DType dtype) {
  return is_signed(dtype) ? std::numeric_limits<int64_t>::min() >> (64 - bits_of(dtype)) : 0;
}
inline int64_t highest_int(DType dtype) {
  if (dtype == DType::bool_) return 1;
  if (is_signed(dtype)) return std::numeric_limits<int64_t>::max() >> (64 - bits_of(dtype));
  return static_cast<int64_t>(~uint64_t{0} >> (64 - bits_of(dtype)));
}

/// Whether a < b for two values of one integer type.
inline bool less(DType dtype, int64_t a, int64_t b) {
  return is_signed(dtype) ? a < b : static_cast<uint64_t>(a) < static_cast<uint64_t>(b);
}

// ---- casts

/// Truncates toward zero and saturates; NaN gives 0. To bool: whether the value differs from 0.
inline int64_t float_to_int(DType to, double value) {
  if (to == DType::bool_) return value != 0;
  if (std::isnan(value)) return 0;
  value = std::trunc(value);
  const bool wide = to == DType::u64_;
  const double limit = std::ldexp(1.0, bits_of(to) - (is_signed(to) ? 1 : 0));
  if (value >= limit) return highest_int(to);
  if (is_signed(to) ? value < -limit : value < 0) return lowest_int(to);
  return wide ? static_cast<int64_t>(static_cast<uint64_t>(value)) : static_cast<int64_t>(value);
}
inline double int_to_float(DType from, DType to, int64_t value) {
  const bool large = from == DType::u64_;
  if (to == DType::f32_)
    return large ? static_cast<float>(static_cast<uint64_t>(value)) : static_cast<float>(value);
  return round_to(to, large ? static_cast<double>(static_cast<uint64_t>(value)) : static_cast<double>(value));
}
/// Converts between bool and integer types: wraps. To bool: whether the value differs from 0.
inline int64_t int_to_int(DType to, int64_t value) { return wrap(to, value); }

// ---- integers; the caller wraps the result to the type

inline int64_t add(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
inline int64_t sub(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
}
inline int64_t mul(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}
inline int64_t div(DType dtype, int64_t a, int64_t b) {
  if (b == 0) return 0;
  if (!is_signed(dtype)) return static_cast<int64_t>(static_cast<uint64_t>(a) / static_cast<uint64_t>(b));
  return b == -1 ? sub(0, a) : a / b;
}
inline int64_t rem(DType dtype, int64_t a, int64_t b) {
  if (b == 0) return 0;
  if (!is_signed(dtype)) return static_cast<int64_t>(static_cast<uint64_t>(a) % static_cast<uint64_t>(b));
  return b == -1 ? 0 : a % b;
}
inline int64_t mod(DType dtype, int64_t a, int64_t b) {
  const int64_t result = rem(dtype, a, b);
  return is_signed(dtype) && result != 0 && (result < 0) != (b < 0) ? result + b : result;
}
inline int64_t shl(DType dtype, int64_t a, int64_t b) {
  return static_cast<uint64_t>(b) >= static_cast<uint64_t>(bits_of(dtype))
             ? 0
             : static_cast<int64_t>(static_cast<uint64_t>(a) << b);
}
inline int64_t shr(DType dtype, int64_t a, int64_t b) {
  if (static_cast<uint64_t>(b) >= static_cast<uint64_t>(bits_of(dtype))) return 0;
  return is_signed(dtype) ? a >> b : static_cast<int64_t>(static_cast<uint64_t>(a) >> b);
}
/// A negative exponent gives the truncated quotient: 0, except for bases 1 and -1.
inline int64_t pow(DType dtype, int64_t base, int64_t exponent) {
  if (is_signed(dtype) && exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 ? -1 : 1) : 0;
  int64_t result = 1;
  for (auto left = static_cast<uint64_t>(exponent); left != 0; left >>= 1) {
    if (left & 1) result = mul(result, base);
    base = mul(base, base);
  }
  return result;
}

// ---- floats

/// The floored modulus: zero or with the sign of b; NaN for b = 0.
inline double mod(double a, double b) {
  const double result = std::fmod(a, b);
  if (result == 0) return std::copysign(0.0, b);
  return (result < 0) != (b < 0) ? result + b : result;
}
inline double min(double a, double b) { return std::isnan(a) || a < b ? a : b; }
inline double max(double a, double b) { return std::isnan(a) || a > b ? a : b; }
inline double sign(double a) { return a > 0 ? 1 : a < 0 ? -1 : a; }

}  // namespace ferrite::core::loop::scalar
