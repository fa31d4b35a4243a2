// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/passes/rewrite/language/splat.h"

#include <cmath>
#include <cstring>

namespace ferrite::core::rewrite {
namespace {

/// The bits of the rounded value; none if it is out of range.
std::optional<uint64_t> rounded_bits(DType dtype, double value) {
  const uint64_t bits = float_bits(dtype, value);
  const double rounded = float_value(dtype, bits);
  if (std::isfinite(value) ? !std::isfinite(rounded) : std::isnan(value) != std::isnan(rounded))
    return std::nullopt;
  return bits;
}

/// The bits of the number as an integer of the dtype.
std::optional<uint64_t> integer_bits(DType dtype, const Number& number) {
  int64_t integer = 0;
  if (number.integer) {
    integer = *number.integer;
  } else {
    if (!(number.value >= -0x1p63 && number.value < 0x1p63) || number.value != std::trunc(number.value)) {
      return std::nullopt;
    }
    integer = static_cast<int64_t>(number.value);
  }
  const int bits = class_of(dtype) == FE_CLASS_BOOL ? 1 : bits_of(dtype);
  if (class_of(dtype) == FE_CLASS_INT) {
    if (bits < 64 && (integer < -(int64_t{1} << (bits - 1)) || integer >= int64_t{1} << (bits - 1)))
      return std::nullopt;
  } else {
    if (integer < 0 || (bits < 63 && integer >= int64_t{1} << bits)) return std::nullopt;
  }
  return static_cast<uint64_t>(integer) & (bits >= 64 ? UINT64_MAX : (uint64_t{1} << bits) - 1);
}

std::optional<uint64_t> element_bits(DType dtype, const Number& number) {
  if (is_computable_float(dtype)) return rounded_bits(dtype, number.value);
  if (is_integer(dtype) || class_of(dtype) == FE_CLASS_BOOL) return integer_bits(dtype, number);
  return std::nullopt;
}

Number number_of(DType dtype, uint64_t bits) {
  Number number;
  if (is_computable_float(dtype)) {
    number.value = float_value(dtype, bits);
    return number;
  }
  if (class_of(dtype) == FE_CLASS_INT) {
    const int shift = 64 - bits_of(dtype);
    number.integer = static_cast<int64_t>(bits << shift) >> shift;
  } else if (bits <= uint64_t{INT64_MAX}) {
    number.integer = static_cast<int64_t>(bits);
  }
  number.value = number.integer ? static_cast<double>(*number.integer) : static_cast<double>(bits);
  return number;
}

/// The bits that all elements share; none if they differ.
std::optional<uint64_t> common_bits(std::span<const std::byte> bytes, int bits, int64_t count) {
  uint64_t first = 0;
  if (bits >= 8) {
    const auto size = static_cast<size_t>(bits / 8);
    std::memcpy(&first, bytes.data(), size);
    // All elements are equal exactly if the bytes equal themselves shifted by one element.
    if (std::memcmp(bytes.data(), bytes.data() + size, (static_cast<size_t>(count) - 1) * size) != 0)
      return std::nullopt;
    return first;
  }
  const uint64_t mask = (uint64_t{1} << bits) - 1;
  const auto element = [&](int64_t k) {
    return std::to_integer<uint64_t>(bytes[static_cast<size_t>(k * bits / 8)]) >> (k * bits % 8) & mask;
  };
  first = element(0);
  for (int64_t k = 1; k < count; ++k) {
    if (element(k) != first) return std::nullopt;
  }
  return first;
}

std::optional<Number> read(const graph::Graph& graph, graph::ValueId id) {
  const graph::Value& value = graph.value(id);
  const DType dtype = value.type.dtype;
  if (!value.constant || value.constant->kind == FE_CONSTANT_PARAMETER) return std::nullopt;
  if (!is_computable_float(dtype) && !is_integer(dtype) && class_of(dtype) != FE_CLASS_BOOL)
    return std::nullopt;
  const auto count = value.type.elements();
  const auto size = value.type.bytes();
  if (!count || *count == 0 || !size) return std::nullopt;
  const auto bytes = graph.constant_bytes(id);
  if (!bytes || bytes->size() < static_cast<uint64_t>(*size)) return std::nullopt;
  const auto bits = common_bits(*bytes, bits_of(dtype), *count);
  if (!bits) return std::nullopt;
  return number_of(dtype, *bits);
}

}  // namespace

std::optional<std::vector<std::byte>> element_bytes(DType dtype, const Number& number) {
  const auto bits = element_bits(dtype, number);
  if (!bits) return std::nullopt;
  std::vector<std::byte> bytes(static_cast<size_t>(bytes_of(dtype, 1)));
  std::memcpy(bytes.data(), &*bits, bytes.size());
  return bytes;
}

std::optional<Number> SplatCache::number(const graph::Graph& graph, graph::ValueId value) {
  const auto [found, added] = numbers_.try_emplace(value.bits);
  if (added) found->second = read(graph, value);
  return found->second;
}

bool SplatCache::equals(const graph::Graph& graph, graph::ValueId value, const Number& wanted) {
  if (!graph.value(value).constant) return false;
  const auto splat = number(graph, value);
  if (!splat) return false;
  const DType dtype = graph.type(value).dtype;
  const auto bits = element_bits(dtype, wanted);
  if (!bits) return false;
  const Number rounded = number_of(dtype, *bits);
  if (rounded.integer || splat->integer) return rounded.integer == splat->integer;
  return rounded.value == splat->value || (std::isnan(rounded.value) && std::isnan(splat->value));
}

}  // namespace ferrite::core::rewrite
