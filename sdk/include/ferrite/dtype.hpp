// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Element types and scalar primitives, generated from dtypes.def and prims.def.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

#include "ferrite/abi/base.h"

namespace ferrite::inline v0 {

/// An element type. The enumeration is open: a value that is not listed is legal and has no descriptor.
enum class DType : uint16_t {
  none = 0,
#define FE_DTYPE(name, code, ...) name##_ = code,
#include "ferrite/dtypes.def"
};

// Short names for authors: ferrite::f32 and so on. `bool` is a keyword, so the boolean type is `boolean`.
inline constexpr DType boolean = DType::bool_, i8 = DType::i8_, i16 = DType::i16_, i32 = DType::i32_,
                       i64 = DType::i64_, u8 = DType::u8_, u16 = DType::u16_, u32 = DType::u32_,
                       u64 = DType::u64_, f16 = DType::f16_, bf16 = DType::bf16_, f32 = DType::f32_,
                       f64 = DType::f64_, f8e4m3 = DType::f8e4m3_, f8e5m2 = DType::f8e5m2_,
                       f8e4m3fnuz = DType::f8e4m3fnuz_, f8e5m2fnuz = DType::f8e5m2fnuz_;

struct DTypeInfo {
  DType dtype;
  std::string_view name;
  int kind;  ///< FE_CLASS_*
  int bits;
  int exponent;
  int mantissa;
  int variant;  ///< 0 IEEE-like, 1 finite only, 2 fnuz
};

inline constexpr auto dtype_table = std::to_array<DTypeInfo>({
#define FE_DTYPE(name, code, kind, bits, exponent, mantissa, variant) \
  {DType::name##_, #name, kind, bits, exponent, mantissa, variant},
#include "ferrite/dtypes.def"
});

/// The descriptor; null for a code that this build does not know.
constexpr const DTypeInfo* find_dtype(DType dtype) {
  auto code = static_cast<size_t>(dtype);
  return code >= 1 && code <= dtype_table.size() ? &dtype_table[code - 1] : nullptr;
}
constexpr const DTypeInfo* find_dtype(std::string_view name) {
  for (const auto& info : dtype_table)
    if (info.name == name) return &info;
  return nullptr;
}
constexpr std::string_view name_of(DType dtype) {
  const auto* info = find_dtype(dtype);
  return info ? info->name : "?";
}
constexpr int bits_of(DType dtype) {
  const auto* info = find_dtype(dtype);
  return info ? info->bits : 0;
}
/// Bytes of `count` contiguous elements; sub-byte types are packed.
constexpr int64_t bytes_of(DType dtype, int64_t count) { return (count * bits_of(dtype) + 7) / 8; }
constexpr int class_of(DType dtype) {
  const auto* info = find_dtype(dtype);
  return info ? info->kind : -1;
}
constexpr bool is_float(DType dtype) { return class_of(dtype) == FE_CLASS_FLOAT; }
/// Whether it is one of the four 8-bit floats with a sign and a mantissa.
constexpr bool is_f8(DType dtype) {
  return dtype == f8e4m3 || dtype == f8e5m2 || dtype == f8e4m3fnuz || dtype == f8e5m2fnuz;
}
/// Whether bodies can compute with values of this float type: f64, f32, f16, bf16 and the 8-bit floats.
constexpr bool is_computable_float(DType dtype) {
  return is_f8(dtype) || (is_float(dtype) && bits_of(dtype) > 8);
}
constexpr bool is_integer(DType dtype) {
  return class_of(dtype) == FE_CLASS_INT || class_of(dtype) == FE_CLASS_UINT;
}
constexpr bool is_signed(DType dtype) { return class_of(dtype) == FE_CLASS_INT; }
/// The type used for arithmetic on `dtype`: f32 for smaller floats, otherwise the type itself.
constexpr DType compute_type(DType dtype) {
  return is_float(dtype) && bits_of(dtype) < 32 ? DType::f32_ : dtype;
}

#define FE_PRIM_BOOL 1
#define FE_PRIM_INT 2
#define FE_PRIM_FLOAT 4

/// A scalar primitive of the loop IR.
enum class Prim : uint16_t {
#define FE_PRIM(name, code, ...) name##_ = code,
#include "ferrite/prims.def"
};

struct PrimInfo {
  Prim prim;
  std::string_view name;
  int operands;
  int classes;      ///< mask of FE_PRIM_BOOL, FE_PRIM_INT, FE_PRIM_FLOAT
  bool gives_bool;  ///< the result is always bool
  int max_ulp;      ///< bound on a backend's error for f32, in ulp
};

namespace detail {
inline constexpr bool SAME = false, BOOL = true;
}

inline constexpr auto prim_table = std::to_array<PrimInfo>({
#define FE_PRIM(name, code, operands, classes, result, ulp) \
  {Prim::name##_, #name, operands, classes, detail::result, ulp},
#include "ferrite/prims.def"
});

constexpr const PrimInfo* find_prim(uint32_t code) {
  return code >= 1 && code <= prim_table.size() ? &prim_table[code - 1] : nullptr;
}
constexpr const PrimInfo& info_of(Prim prim) { return prim_table[static_cast<size_t>(prim) - 1]; }
constexpr const PrimInfo* find_prim(std::string_view name) {
  for (const auto& info : prim_table)
    if (info.name == name) return &info;
  return nullptr;
}

/// Converts float to bf16 bits: rounds to nearest even; NaN becomes quiet.
constexpr uint16_t bf16_bits(float value) {
  auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}
constexpr float bf16_value(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

/// Converts float to IEEE half bits: rounds to nearest even.
constexpr uint16_t f16_bits(float value) {
  auto bits = std::bit_cast<uint32_t>(value);
  auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u);
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);
  if (magnitude < 0x33000001u) return sign;
  int exponent = static_cast<int>(magnitude >> 23) - 127;
  uint32_t mantissa = (magnitude & 0x7fffffu) | 0x800000u;
  int shift = exponent < -14 ? 13 + (-14 - exponent) : 13;
  uint32_t kept = mantissa >> shift;
  uint32_t rest = mantissa & ((1u << shift) - 1u);
  uint32_t half = 1u << (shift - 1);
  if (rest > half || (rest == half && (kept & 1u))) ++kept;
  uint32_t result = exponent < -14 ? kept : kept + (static_cast<uint32_t>(exponent + 14) << 10);
  return static_cast<uint16_t>(sign | result);
}
constexpr float f16_value(uint16_t bits) {
  uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  uint32_t exponent = (bits >> 10) & 0x1fu;
  uint32_t mantissa = bits & 0x3ffu;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent == 0) {
    float value = static_cast<float>(mantissa) * (1.0f / 16777216.0f);
    return sign ? -value : value;
  }
  return std::bit_cast<float>(sign | ((exponent + 112u) << 23) | (mantissa << 13));
}

/// The encoding of an 8-bit float, apart from its sign.
struct F8Format {
  int mantissa;
  int bias;
  /// The largest magnitude that is no NaN: infinity, or the largest number of a format without it.
  uint8_t last;
  uint8_t overflow;  ///< the magnitude for values beyond the largest number
  uint8_t nan;
  bool one_zero;  ///< there is no -0: its bits are the only NaN
};
constexpr F8Format f8_format(DType dtype) {
  const auto& info = *find_dtype(dtype);
  const int bias = (1 << (info.exponent - 1)) - (info.variant == 2 ? 0 : 1);
  if (info.variant == 2) return {info.mantissa, bias, 0x7f, 0x80, 0x80, true};
  if (info.variant == 1) return {info.mantissa, bias, 0x7e, 0x7f, 0x7f, false};
  return {info.mantissa, bias, 0x7c, 0x7c, 0x7e, false};
}

/// Converts float to the bits of an 8-bit float: rounds to nearest even. An overflow becomes infinite or, in
/// a format without infinities, NaN.
constexpr uint8_t f8_bits(DType dtype, float value) {
  const F8Format format = f8_format(dtype);
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t magnitude = bits & 0x7fffffffu, sign = (bits >> 24) & 0x80u;
  if (magnitude > 0x7f800000u) return static_cast<uint8_t>(sign | format.nan);
  const int shift = 23 - format.mantissa;
  const auto rebias = static_cast<uint32_t>(127 - format.bias) << 23;
  uint32_t result = 0;
  if (magnitude < rebias + 0x800000u) {
    // Below the smallest normal number: add a number whose last place equals that of the denormals, so that
    // the addition rounds.
    const uint32_t unit = rebias + (static_cast<uint32_t>(shift + 1) << 23);
    const float sum = std::bit_cast<float>(magnitude) + std::bit_cast<float>(unit);
    result = std::bit_cast<uint32_t>(sum) - unit;
  } else {
    result = (magnitude - rebias + (1u << (shift - 1)) - 1u + ((magnitude >> shift) & 1u)) >> shift;
  }
  if (result > format.last) result = format.overflow;
  if (format.one_zero && result == 0) return 0;
  return static_cast<uint8_t>(sign | result);
}
constexpr float f8_value(DType dtype, uint8_t bits) {
  const F8Format format = f8_format(dtype);
  const uint32_t magnitude = bits & 0x7fu, sign = static_cast<uint32_t>(bits & 0x80u) << 24;
  if (magnitude > format.last || (format.one_zero && bits == 0x80u))
    return std::bit_cast<float>(sign | 0x7fc00000u);
  if (magnitude == format.last && format.last == format.overflow)
    return std::bit_cast<float>(sign | 0x7f800000u);
  const int shift = 23 - format.mantissa;
  const auto least = static_cast<uint32_t>(128 - format.bias) << 23;  // the smallest normal number
  const uint32_t normal = least - 0x800000u + (magnitude << shift);
  // A denormal has no leading 1. Build a normal number with the same mantissa, then subtract the leading 1.
  const float value = normal >= least
                          ? std::bit_cast<float>(normal)
                          : std::bit_cast<float>(least + (magnitude << shift)) - std::bit_cast<float>(least);
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(value));
}
/// The largest finite value of an 8-bit float.
constexpr float f8_largest(DType dtype) {
  const F8Format format = f8_format(dtype);
  return f8_value(dtype, format.last == format.overflow ? format.last - 1 : format.last);
}

/// Rounds to odd: truncates, and sets the last bit if inexact. Rounding the result to a narrower type then
/// gives the same as rounding `value` directly.
constexpr float round_to_odd(double value) {
  const auto nearest = static_cast<float>(value);
  if (value != value || static_cast<double>(nearest) == value) return nearest;
  auto bits = std::bit_cast<uint32_t>(nearest);
  const bool up = (static_cast<double>(nearest) > value) == (value > 0);  // rounded away from zero
  if (up) --bits;
  return std::bit_cast<float>(bits | 1u);
}

/// The bits of a value in a type that bodies compute with. Rounds only once, to nearest even.
constexpr uint64_t float_bits(DType dtype, double value) {
  switch (dtype) {
    case DType::f16_: return f16_bits(round_to_odd(value));
    case DType::bf16_: return bf16_bits(round_to_odd(value));
    case DType::f32_: return std::bit_cast<uint32_t>(static_cast<float>(value));
    case DType::f64_: return std::bit_cast<uint64_t>(value);
    default: return f8_bits(dtype, round_to_odd(value));
  }
}
constexpr double float_value(DType dtype, uint64_t bits) {
  switch (dtype) {
    case DType::f16_: return f16_value(static_cast<uint16_t>(bits));
    case DType::bf16_: return bf16_value(static_cast<uint16_t>(bits));
    case DType::f32_: return std::bit_cast<float>(static_cast<uint32_t>(bits));
    case DType::f64_: return std::bit_cast<double>(bits);
    default: return f8_value(dtype, static_cast<uint8_t>(bits));
  }
}

}  // namespace ferrite::inline v0
