// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "driver/validate/samples/tensors.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>

#include "core/ir/loop/scalar.h"
#include "ferrite/loop_check.hpp"

namespace ferrite::core::validate {
namespace {

namespace scalar = loop::scalar;

size_t width_of(DType dtype) { return static_cast<size_t>(bits_of(dtype)) / 8; }

void set_bits(Tensor& tensor, size_t width, size_t element, uint64_t bits) {
  std::memcpy(tensor.data() + element * width, &bits, width);
}
uint64_t bits_at(const Tensor& tensor, size_t width, size_t element) {
  uint64_t bits = 0;
  std::memcpy(&bits, tensor.data() + element * width, width);
  return bits;
}

/// Large enough that an exponential or a square overflows, or small enough that a square vanishes.
double wide_float(DType dtype, Random& random) {
  constexpr std::array byte = {20.0, 200.0, 1e-2};
  constexpr std::array half = {100.0, 300.0, 1e-4, 1e-6};
  constexpr std::array single = {100.0, 3e4, 1e20, 1e-4, 1e-30};
  constexpr std::array twice = {100.0, 1e3, 1e20, 1e200, 1e-30, 1e-200};
  if (random.chance(0.4)) return random.normal();
  const double magnitude = is_f8(dtype)           ? random.pick(byte)
                           : dtype == DType::f16_ ? random.pick(half)
                           : dtype == DType::f64_ ? random.pick(twice)
                                                  : random.pick(single);
  return random.chance(0.5) ? magnitude : -magnitude;
}

double random_float(DType dtype, Contents contents, Random& random) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  constexpr std::array special = {
      std::numeric_limits<double>::quiet_NaN(), infinity, -infinity, 0.0, -0.0, 1.0, -1.0, 2.0, -0.5};
  // Smaller numbers have a square with few bits in f16, or none, which a rule may legitimately round
  // differently.
  const auto squarable = [&](double value) {
    return dtype == DType::f16_ && std::abs(value) < 0x1p-6 ? std::copysign(0x1p-6, value) : value;
  };
  switch (contents) {
    case Contents::normal: return squarable(random.normal());
    case Contents::positive: return squarable(2 * random.real() + 0x1p-20);
    case Contents::small: return squarable(random.normal() / (bits_of(dtype) < 32 ? 8 : 1000));
    case Contents::whole: return static_cast<double>(random.below(9)) - 4;
    case Contents::wide: return wide_float(dtype, random);
    case Contents::special: return random.pick(special);
    case Contents::halves: return static_cast<double>(random.below(17)) / 2 - 4;
  }
  return 0;
}

int64_t random_integer(DType dtype, Contents contents, Random& random) {
  const std::array special = {scalar::lowest_int(dtype), scalar::highest_int(dtype), int64_t{0}, int64_t{1},
                              int64_t{2}};
  switch (contents) {
    case Contents::normal:
    case Contents::small: return static_cast<int64_t>(random.below(2));
    case Contents::positive: return static_cast<int64_t>(random.below(4));
    case Contents::whole:
    case Contents::halves:
      return is_signed(dtype) ? static_cast<int64_t>(random.below(9)) - 4
                              : static_cast<int64_t>(random.below(5));
    case Contents::wide:
      return is_signed(dtype) ? static_cast<int64_t>(random.below(201)) - 100
                              : static_cast<int64_t>(random.below(101));
    case Contents::special: return random.pick(special);
  }
  return 0;
}

double number_at(DType dtype, const Tensor& tensor, size_t element) {
  const uint64_t bits = bits_at(tensor, width_of(dtype), element);
  return is_float(dtype) ? scalar::float_value(dtype, bits)
                         : static_cast<double>(scalar::int_value(dtype, bits));
}

/// Compares the bits of two elements. Any nonzero byte is true for a bool.
bool same_bits(DType dtype, const Tensor& a, const Tensor& b, size_t element) {
  const uint64_t x = bits_at(a, width_of(dtype), element), y = bits_at(b, width_of(dtype), element);
  return dtype == DType::bool_ ? (x != 0) == (y != 0) : x == y;
}

/// The row "random graphs" of docs/numerics.md.
double relative_bound(DType dtype) {
  switch (dtype) {
    case DType::f16_: return 4e-3;
    case DType::bf16_: return 3e-2;
    case DType::f32_: return 1e-5;
    case DType::f64_: return 1e-9;
    default: return 0.25;
  }
}

}  // namespace

uint64_t Random::bits() {
  uint64_t z = state_ += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

double Random::normal() {
  const double radius = std::sqrt(-2 * std::log(1 - real()));
  return radius * std::cos(2 * std::numbers::pi * real());
}

std::string_view name_of(Contents contents) {
  constexpr std::array<std::string_view, 7> names = {"normal", "positive", "small", "whole",
                                                     "wide",   "special",  "halves"};
  return names[static_cast<size_t>(contents)];
}

bool comparable(DType dtype) { return ferrite::loop::is_computable(dtype); }

Tensor random_tensor(const graph::TensorType& type, Contents contents, Random& random) {
  const auto count = static_cast<size_t>(type.elements().value_or(0));
  const size_t width = width_of(type.dtype);
  Tensor tensor(count * width);
  for (size_t k = 0; k < count; ++k) {
    uint64_t bits = 0;
    if (is_float(type.dtype))
      bits = scalar::float_bits(type.dtype, random_float(type.dtype, contents, random));
    else if (type.dtype == DType::bool_)
      bits = random.below(2);
    else
      bits = scalar::int_bits(type.dtype, random_integer(type.dtype, contents, random));
    set_bits(tensor, width, k, bits);
  }
  return tensor;
}

Tensor perturbed(const graph::TensorType& type, const Tensor& tensor, int units, Random& random) {
  if (!is_float(type.dtype)) return tensor;
  const size_t width = width_of(type.dtype);
  const double unit = std::ldexp(static_cast<double>(units), -find_dtype(type.dtype)->mantissa);
  Tensor result(tensor);
  for (size_t k = 0; k < tensor.size() / width; ++k) {
    const double value = number_at(type.dtype, tensor, k);
    const double moved = value * (random.chance(0.5) ? 1 + unit : 1 - unit);
    if (std::isfinite(value)) set_bits(result, width, k, scalar::float_bits(type.dtype, moved));
  }
  return result;
}

void add_spread(const graph::TensorType& type, const Tensor& a, const Tensor& b,
                std::vector<double>& spread) {
  spread.resize(a.size() / width_of(type.dtype));
  for (size_t k = 0; k < spread.size(); ++k) {
    const double x = number_at(type.dtype, a, k), y = number_at(type.dtype, b, k);
    if (x == y || (std::isnan(x) && std::isnan(y))) continue;
    const double distance = std::fabs(x - y);
    spread[k] = std::isnan(distance) ? HUGE_VAL : std::max(spread[k], distance);
  }
}

std::optional<Mismatch> first_out_of_range(const graph::TensorType& type, const Tensor& expected,
                                           const Tensor& actual) {
  if (!is_float(type.dtype)) return std::nullopt;
  for (size_t k = 0; k < expected.size() / width_of(type.dtype); ++k) {
    const double e = number_at(type.dtype, expected, k), a = number_at(type.dtype, actual, k);
    if (std::isfinite(e) && !std::isfinite(a)) return Mismatch{static_cast<int64_t>(k), e, a};
  }
  return std::nullopt;
}

std::optional<Mismatch> first_mismatch(const graph::TensorType& type, const Tensor& expected,
                                       const Tensor& actual, std::span<const double> spread) {
  const size_t count = expected.size() / width_of(type.dtype);
  double largest = 1;
  if (is_float(type.dtype))
    for (size_t k = 0; k < count; ++k) {
      const double e = std::fabs(number_at(type.dtype, expected, k));
      if (std::isfinite(e)) largest = std::max(largest, e);
    }
  for (size_t k = 0; k < count; ++k) {
    const double e = number_at(type.dtype, expected, k), a = number_at(type.dtype, actual, k);
    const double slack = spread.empty() ? 0 : spread[k];
    if (slack == HUGE_VAL) continue;
    if (!is_float(type.dtype)) {
      if (slack > 0 || same_bits(type.dtype, expected, actual, k)) continue;
      return Mismatch{static_cast<int64_t>(k), e, a};
    }
    if (e == a || (std::isnan(e) && std::isnan(a))) continue;
    const double bound = relative_bound(type.dtype) * largest + 8 * slack;
    if (std::isfinite(e) && std::isfinite(a) && std::fabs(e - a) <= bound) continue;
    return Mismatch{static_cast<int64_t>(k), e, a};
  }
  return std::nullopt;
}

}  // namespace ferrite::core::validate
