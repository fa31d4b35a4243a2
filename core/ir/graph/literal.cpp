// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/ir/graph/literal.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <optional>

#include "ferrite/counted.hpp"

namespace ferrite::core::graph {
namespace {

uint64_t mask_of(int bits) { return bits >= 64 ? UINT64_MAX : (uint64_t{1} << bits) - 1; }

/// The bits of element k. A complex element counts as two elements of half the width.
uint64_t get_bits(std::span<const std::byte> bytes, int bits, int64_t k) {
  uint64_t value = 0;
  if (bits >= 8) {
    std::memcpy(&value, bytes.data() + k * (bits / 8), static_cast<size_t>(bits / 8));
    return value;
  }
  const int64_t bit = k * bits;
  return (std::to_integer<uint64_t>(bytes[static_cast<size_t>(bit / 8)]) >> (bit % 8)) & mask_of(bits);
}

void set_bits(std::span<std::byte> bytes, int bits, int64_t k, uint64_t value) {
  if (bits >= 8) {
    std::memcpy(bytes.data() + k * (bits / 8), &value, static_cast<size_t>(bits / 8));
    return;
  }
  const int64_t bit = k * bits;
  bytes[static_cast<size_t>(bit / 8)] |= static_cast<std::byte>((value & mask_of(bits)) << (bit % 8));
}

/// The value rounded to the dtype; none if a finite number overflows to infinity or, in a type without
/// infinities, to NaN.
std::optional<uint64_t> from_double(DType dtype, double value) {
  const uint64_t bits = float_bits(dtype, value);
  if (std::isfinite(value) && !std::isfinite(float_value(dtype, bits))) return std::nullopt;
  return bits;
}

uint64_t quiet_nan(DType dtype) { return float_bits(dtype, std::nan("")); }

std::string print_number(DType dtype, uint64_t bits) {
  const double value = float_value(dtype, bits);
  if (std::isnan(value)) return bits == quiet_nan(dtype) ? "nan" : fmt::format("nan(0x{:x})", bits);
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  std::array<char, 40> buffer;
  char* const end = buffer.data() + buffer.size();
  // Print small integers with all their digits: for 100 the shortest form is 1e+02.
  const int first = std::abs(value) < 65536 && value == std::trunc(value) ? 5 : 1;
  for (int digits = first; digits <= (dtype == DType::f64_ ? 17 : 9); ++digits) {
    // The reader parses a double and rounds it to the dtype. Two roundings can differ from one, so add digits
    // until the value survives the trip.
    const auto last = std::to_chars(buffer.data(), end, value, std::chars_format::general, digits).ptr;
    double read = 0;
    std::from_chars(buffer.data(), last, read);
    if (from_double(dtype, read) != bits) continue;
    std::string text(buffer.data(), std::to_chars(buffer.data(), end, read).ptr);
    // Without a dot or an exponent the reader would take the text for a 64-bit integer.
    if (text.size() > 18 && text.find_first_of(".e") == std::string::npos) text += ".0";
    return text;
  }
  const auto hex = std::to_chars(buffer.data(), end, std::abs(value), std::chars_format::hex);
  return (std::signbit(value) ? "-0x" : "0x") + std::string(buffer.data(), hex.ptr);
}

std::string print_element(DType dtype, uint64_t bits) {
  if (is_computable_float(dtype)) return print_number(dtype, bits);
  const DTypeInfo& info = *find_dtype(dtype);
  switch (info.kind) {
    case FE_CLASS_BOOL: return bits == 0 ? "false" : bits == 1 ? "true" : fmt::format("0x{:x}", bits);
    case FE_CLASS_INT: {
      const int shift = 64 - info.bits;
      return std::to_string(static_cast<int64_t>(bits << shift) >> shift);
    }
    case FE_CLASS_UINT: return std::to_string(bits);
    default: return fmt::format("0x{:x}", bits);
  }
}

class Reader {
 public:
  Reader(text::Cursor& cursor, DType dtype) : cursor_(cursor), dtype_(dtype), info_(*find_dtype(dtype)) {}

  Result<uint64_t> read() {
    const std::string place = cursor_.where();
    if (is_computable_float(dtype_)) {
      if (cursor_.is("nan") && cursor_.is("(", 1)) return nan();
      if (cursor_.accept("nan")) return quiet_nan(dtype_);
      FE_TRY(const double value, cursor_.expect_number("a number"));
      const auto bits = from_double(dtype_, value);
      if (!bits) return too_large(place);
      return *bits;
    }
    if (info_.kind == FE_CLASS_BOOL) {
      if (cursor_.accept("false")) return uint64_t{0};
      if (cursor_.accept("true")) return uint64_t{1};
    }
    if (info_.kind == FE_CLASS_INT) {
      FE_TRY(const int64_t value, cursor_.expect_integer("an integer"));
      const auto limit = static_cast<int64_t>(mask_of(info_.bits - 1));
      if (value > limit || value < -limit - 1) return too_large(place);
      return static_cast<uint64_t>(value) & mask_of(info_.bits);
    }
    FE_TRY(const text::Token token, cursor_.expect(text::TokenKind::integer, "an integer from 0 on"));
    if (token.integer > mask_of(info_.bits)) return too_large(place);
    return token.integer;
  }

 private:
  Result<uint64_t> nan() {
    cursor_.next();
    cursor_.next();
    const std::string place = cursor_.where();
    FE_TRY(const text::Token token, cursor_.expect(text::TokenKind::integer, "the bits of a NaN"));
    FE_CHECK(cursor_.expect(")"));
    if (token.integer > mask_of(info_.bits) || !std::isnan(float_value(dtype_, token.integer)))
      return too_large(place);
    return token.integer;
  }
  Error too_large(const std::string& place) const {
    return at(place, error(FE_EINVALID, "FE-G18", "the element does not fit {}", info_.name));
  }

  text::Cursor& cursor_;
  DType dtype_;
  const DTypeInfo& info_;
};

/// The dtype of each half of a complex element; other dtypes unchanged.
DType part_of(DType dtype) {
  return dtype == DType::c64_ ? DType::f32_ : dtype == DType::c128_ ? DType::f64_ : dtype;
}

}  // namespace

std::string print_elements(DType dtype, std::span<const std::byte> bytes, int64_t count) {
  const DType part = part_of(dtype);
  const int bits = bits_of(part);
  std::string text;
  for (int64_t k = 0; k < count; ++k) {
    if (k != 0) text += ", ";
    if (part == dtype) {
      text += print_element(dtype, get_bits(bytes, bits, k));
    } else {
      text += "(" + print_element(part, get_bits(bytes, bits, 2 * k)) + ", " +
              print_element(part, get_bits(bytes, bits, 2 * k + 1)) + ")";
    }
  }
  return text;
}

Result<std::vector<std::byte>> parse_elements(text::Cursor& cursor, DType dtype, int64_t count) {
  const std::string place = cursor.where();
  const DType part = part_of(dtype);
  const int bits = bits_of(part);
  const bool complex = part != dtype;
  std::vector<std::byte> bytes;
  int64_t read = 0;
  const auto put = [&](uint64_t value) {
    const int64_t parts = ++read * bits;
    bytes.resize(static_cast<size_t>((parts + 7) / 8));
    set_bits(bytes, bits, read - 1, value);
  };
  FE_CHECK(cursor.expect("{"));
  while (!cursor.is("}")) {
    if (read != 0) FE_CHECK(cursor.expect(","));
    if (complex) FE_CHECK(cursor.expect("("));
    FE_TRY(const uint64_t first, Reader(cursor, part).read());
    put(first);
    if (complex) {
      FE_CHECK(cursor.expect(","));
      FE_TRY(const uint64_t second, Reader(cursor, part).read());
      put(second);
      FE_CHECK(cursor.expect(")"));
    }
  }
  FE_CHECK(cursor.expect("}"));
  const int64_t given = complex ? read / 2 : read;
  if (given != count) {
    return at(place,
              error(FE_EINVALID, "FE-G18", "the type has {}, the list {}", counted(count, "element"), given));
  }
  return bytes;
}

}  // namespace ferrite::core::graph
