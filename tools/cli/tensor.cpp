// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tools/cli/tensor.h"

#include <cmath>
#include <cstring>
#include <numbers>

namespace ferrite::cli {
namespace {

constexpr size_t alignment = 64;

/// splitmix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014).
class Generator {
 public:
  explicit Generator(uint64_t seed) : state_(seed) {}
  uint64_t bits() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  /// In (0, 1].
  double uniform() { return static_cast<double>((bits() >> 11) + 1) * 0x1p-53; }
  /// Two numbers of N(0, 1) at a time, by Box and Muller's transform.
  double normal() {
    if (has_spare_) {
      has_spare_ = false;
      return spare_;
    }
    double radius = std::sqrt(-2 * std::log(uniform())), angle = 2 * std::numbers::pi * uniform();
    spare_ = radius * std::sin(angle);
    has_spare_ = true;
    return radius * std::cos(angle);
  }

 private:
  uint64_t state_;
  double spare_ = 0;
  bool has_spare_ = false;
};

/// The value of a float of any type of up to 8 bits.
double small_float_value(const DTypeInfo& info, uint32_t bits) {
  if (is_f8(info.dtype)) return f8_value(info.dtype, static_cast<uint8_t>(bits));
  if (info.mantissa == 0) return bits == 0xff ? std::nan("") : std::ldexp(1.0, static_cast<int>(bits) - 127);
  const int top = info.exponent + info.mantissa;
  const bool negative = (bits >> top & 1u) != 0;
  const int exponent = static_cast<int>(bits >> info.mantissa) & ((1 << info.exponent) - 1);
  const int mantissa = static_cast<int>(bits) & ((1 << info.mantissa) - 1);
  const int bias = (1 << (info.exponent - 1)) - 1;
  double value = exponent == 0 ? std::ldexp(mantissa, 1 - bias - info.mantissa)
                               : std::ldexp(mantissa + (1 << info.mantissa), exponent - bias - info.mantissa);
  return negative ? -value : value;
}

/// The bits of the nearest value; at most 256 values are tried.
uint32_t small_float_bits(const DTypeInfo& info, double value) {
  uint32_t best = 0;
  double least = HUGE_VAL;
  for (uint32_t bits = 0; bits < 1u << info.bits; ++bits) {
    double distance = std::fabs(small_float_value(info, bits) - value);
    if (distance < least) {
      least = distance;
      best = bits;
    }
  }
  return best;
}

/// The bits of element k of a type of at most 64 bits.
uint64_t bits_at(const Tensor& tensor, int64_t k) {
  const int width = bits_of(tensor.dtype);
  const auto bytes = tensor.bytes();
  if (width < 8) {
    const int64_t bit = k * width;
    return static_cast<uint64_t>(bytes[static_cast<size_t>(bit / 8)]) >> (bit % 8) & ((1u << width) - 1);
  }
  uint64_t bits = 0;
  std::memcpy(&bits, bytes.data() + k * (width / 8), static_cast<size_t>(std::min(width / 8, 8)));
  return bits;
}

void set_bits(Tensor& tensor, int64_t k, uint64_t bits) {
  const int width = bits_of(tensor.dtype);
  auto bytes = tensor.bytes();
  if (width < 8) {
    const int64_t bit = k * width;
    bytes[static_cast<size_t>(bit / 8)] |= static_cast<std::byte>(bits << (bit % 8));
    return;
  }
  std::memcpy(bytes.data() + k * (width / 8), &bits, static_cast<size_t>(width / 8));
}

void set_float(Tensor& tensor, int64_t k, double value) {
  switch (tensor.dtype) {
    case DType::f64_: return set_bits(tensor, k, std::bit_cast<uint64_t>(value));
    case DType::f32_: return set_bits(tensor, k, std::bit_cast<uint32_t>(static_cast<float>(value)));
    case DType::f16_: return set_bits(tensor, k, f16_bits(static_cast<float>(value)));
    case DType::bf16_: return set_bits(tensor, k, bf16_bits(static_cast<float>(value)));
    default: return set_bits(tensor, k, small_float_bits(*find_dtype(tensor.dtype), value));
  }
}

std::string place_text(const Tensor& tensor, int64_t k) {
  std::vector<int64_t> index(tensor.dims.size());
  for (size_t d = index.size(); d-- > 0; k /= tensor.dims[d]) index[d] = k % tensor.dims[d];
  return fmt::format("[{}]", fmt::join(index, ","));
}

}  // namespace

core::Result<Tensor> Tensor::make(DType dtype, std::vector<int64_t> dims) {
  int64_t count = 1, bits = 0;
  for (int64_t dim : dims)
    if (dim < 0 || __builtin_mul_overflow(count, dim, &count))
      return core::error(FE_EINVALID, "FE-X32", "the shape [{}] is negative or too large",
                         fmt::join(dims, ","));
  if (!find_dtype(dtype) || __builtin_mul_overflow(count, int64_t{bits_of(dtype)}, &bits) ||
      bits > INT64_MAX - 4096)
    return core::error(FE_EINVALID, "FE-X32", "the shape [{}] is too large, or its dtype is unknown",
                       fmt::join(dims, ","));
  Tensor tensor;
  tensor.dtype = dtype;
  tensor.dims = std::move(dims);
  tensor.elements_ = count;
  tensor.size_ = static_cast<size_t>(bytes_of(dtype, count));
  const size_t reserved = (tensor.size_ + alignment) / alignment * alignment;
  tensor.data_.reset(static_cast<std::byte*>(std::aligned_alloc(alignment, reserved)));
  if (!tensor.data_)
    return core::error(FE_ENOMEM, "FE-X36", "no memory for a tensor of {} bytes", tensor.size_);
  std::memset(tensor.data_.get(), 0, reserved);
  return tensor;
}

double Tensor::number(int64_t k) const {
  const auto& info = *find_dtype(dtype);
  const uint64_t bits = bits_at(*this, k);
  if (info.kind == FE_CLASS_BOOL) return (bits & 0xff) != 0;
  if (info.kind == FE_CLASS_UINT) return static_cast<double>(bits);
  if (info.kind == FE_CLASS_INT)
    return static_cast<double>(static_cast<int64_t>(bits << (64 - info.bits)) >> (64 - info.bits));
  switch (dtype) {
    case DType::f64_:
    case DType::c128_: return std::bit_cast<double>(bits);
    case DType::f32_:
    case DType::c64_: return std::bit_cast<float>(static_cast<uint32_t>(bits));
    case DType::f16_: return f16_value(static_cast<uint16_t>(bits));
    case DType::bf16_: return bf16_value(static_cast<uint16_t>(bits));
    default: return small_float_value(info, static_cast<uint32_t>(bits));
  }
}

void adopt_raw_floats(Tensor& tensor, DType wanted) {
  const bool raw = wanted == DType::bf16_ || (is_float(wanted) && bits_of(wanted) == 8);
  if (raw && class_of(tensor.dtype) == FE_CLASS_UINT && bits_of(tensor.dtype) == bits_of(wanted))
    tensor.dtype = wanted;
}

void fill_random(Tensor& tensor, uint64_t seed) {
  Generator generator(seed);
  const int kind = class_of(tensor.dtype);
  if (kind == FE_CLASS_COMPLEX) {
    const bool wide = tensor.dtype == DType::c128_;
    for (int64_t k = 0; k < 2 * tensor.elements(); ++k) {
      double value = generator.normal();
      float narrow = static_cast<float>(value);
      auto* at = tensor.bytes().data() + k * (wide ? 8 : 4);
      wide ? std::memcpy(at, &value, sizeof value) : std::memcpy(at, &narrow, sizeof narrow);
    }
    return;
  }
  for (int64_t k = 0; k < tensor.elements(); ++k) {
    if (kind == FE_CLASS_FLOAT)
      set_float(tensor, k, generator.normal());
    else
      set_bits(tensor, k, generator.bits() >> 63);
  }
}

Tolerance tolerance_of(DType dtype) {
  if (!is_float(dtype) && class_of(dtype) != FE_CLASS_COMPLEX) return {};
  switch (dtype) {
    case DType::f16_: return {4e-3, 1e-3};
    case DType::bf16_: return {2e-2, 1e-2};
    default: return bits_of(dtype) <= 8 ? Tolerance{0.25, 1e-2} : Tolerance{1e-3, 1e-7};
  }
}

std::string difference(const Tensor& actual, const Tensor& expected, Tolerance tolerance) {
  auto type = [](const Tensor& t) { return fmt::format("{}[{}]", name_of(t.dtype), fmt::join(t.dims, ",")); };
  if (actual.dtype != expected.dtype || actual.dims != expected.dims)
    return fmt::format("is {}, expected {}", type(actual), type(expected));
  const bool exact = tolerance.relative == 0 && tolerance.absolute == 0;
  int64_t wrong = 0, worst = -1;
  double worst_excess = 0;
  for (int64_t k = 0; k < actual.elements(); ++k) {
    double a = actual.number(k), b = expected.number(k), excess = 0;
    if (exact) {
      // Bits are compared because a double cannot represent every i64; any nonzero byte is true.
      bool same = actual.dtype == DType::bool_ ? a == b : bits_at(actual, k) == bits_at(expected, k);
      excess = same ? 0 : std::max(std::fabs(a - b), 1.0);
    } else if (!(a == b || (std::isnan(a) && std::isnan(b)))) {
      excess = std::fabs(a - b) / (tolerance.absolute + tolerance.relative * std::fabs(b));
      if (std::isnan(excess) || !std::isfinite(b)) excess = HUGE_VAL;
      if (excess <= 1) excess = 0;
    }
    if (excess == 0) continue;
    ++wrong;
    if (worst < 0 || excess > worst_excess) {
      worst = k;
      worst_excess = excess;
    }
  }
  if (wrong == 0) return {};
  return fmt::format("{} of {} elements are off, the worst at {}: {:.7g}, expected {:.7g}", wrong,
                     actual.elements(), place_text(actual, worst), actual.number(worst),
                     expected.number(worst));
}

}  // namespace ferrite::cli
