// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Elements of inputs and results.
#include <cmath>
#include <cstring>
#include <limits>

#include "graph_writer.h"

namespace ferrite::random_graphs {
namespace {

uint64_t bits_for(DType dtype, double value) {
  return is_float(dtype) ? float_bits(dtype, value) : static_cast<uint64_t>(static_cast<int64_t>(value));
}

uint64_t element_bits(const Input& input, RandomSource& random) {
  const auto limit = static_cast<int64_t>(input.magnitude);
  if (input.dtype == DType::bool_) return random.bits() & 1;
  if (input.special && random.chance(0.05)) {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    const double choices[] = {std::nan(""), infinity, -infinity, -0.0};
    return bits_for(input.dtype, choices[random.integer(0, 3)]);
  }
  switch (input.contents) {
    case Contents::real: return bits_for(input.dtype, (random.real() * 2 - 1) * input.magnitude);
    case Contents::quantised:
      return bits_for(input.dtype, 0.5 * static_cast<double>(random.integer(-2 * limit, 2 * limit)));
    case Contents::whole: {
      const bool sign = is_float(input.dtype) || is_signed(input.dtype);
      return bits_for(input.dtype, static_cast<double>(random.integer(sign ? -limit : 0, limit)));
    }
    case Contents::index: return static_cast<uint64_t>(random.integer(0, limit - 1));
    case Contents::extreme: break;
  }
  // The least value, -1, 0, 1 and the greatest one, often enough that they meet.
  const uint64_t least = is_signed(input.dtype) ? uint64_t{1} << (bits_of(input.dtype) - 1) : 0;
  const uint64_t edges[] = {least, ~uint64_t{0}, 0, 1, least - 1};
  return random.chance(0.5) ? edges[random.integer(0, 4)] : random.bits();
}

}  // namespace

std::vector<std::byte> contents_of(const Input& input, uint64_t seed) {
  RandomSource random(seed);
  int64_t count = 1;
  for (int64_t dim : input.dims) count *= dim;
  const auto width = static_cast<size_t>(bits_of(input.dtype) / 8);
  std::vector<std::byte> bytes(static_cast<size_t>(count) * width);
  for (int64_t k = 0; k < count; ++k) {
    const uint64_t bits = element_bits(input, random);
    std::memcpy(bytes.data() + static_cast<size_t>(k) * width, &bits, width);
  }
  return bytes;
}

double number_at(DType dtype, const std::byte* data, int64_t element) {
  const auto width = static_cast<size_t>(bits_of(dtype) / 8);
  uint64_t bits = 0;
  std::memcpy(&bits, data + static_cast<size_t>(element) * width, width);
  if (is_float(dtype)) return float_value(dtype, bits);
  if (dtype == boolean) return bits != 0;
  if (!is_signed(dtype)) return static_cast<double>(bits);
  const int shift = 64 - bits_of(dtype);
  return static_cast<double>(static_cast<int64_t>(bits << shift) >> shift);
}

double relative_tolerance(DType dtype) {
  switch (dtype) {
    case DType::f16_: return 4e-3;
    case DType::bf16_: return 3e-2;
    case DType::f32_: return 1e-5;
    case DType::f64_: return 1e-9;
    default: return is_f8(dtype) ? epsilon_of(dtype) : 0;
  }
}

}  // namespace ferrite::random_graphs
