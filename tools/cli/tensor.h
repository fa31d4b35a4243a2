// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tensors in host memory: files, random contents, comparison.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/support/error.h"
#include "ferrite/dtype.hpp"

namespace ferrite::cli {

struct Tensor {
  DType dtype = DType::none;
  std::vector<int64_t> dims;

  /// Zeroed, aligned to 64 bytes. FE-X36 where memory is insufficient, FE-X32 where the shape's size
  /// overflows.
  static core::Result<Tensor> make(DType dtype, std::vector<int64_t> dims);

  int64_t elements() const { return elements_; }
  std::span<std::byte> bytes() { return {data_.get(), size_}; }
  std::span<const std::byte> bytes() const { return {data_.get(), size_}; }
  void* data() { return data_.get(); }
  const void* data() const { return data_.get(); }

  /// Element k as a number; of complex numbers the real part; i64 and u64 with the precision of a double.
  double number(int64_t k) const;

 private:
  struct Free {
    void operator()(std::byte* data) const { std::free(data); }
  };
  std::unique_ptr<std::byte[], Free> data_;
  size_t size_ = 0;
  int64_t elements_ = 0;
};

/// Files without bf16 or 8-bit floats store these as unsigned integers. Changes the tensor's dtype to
/// `wanted` where that is such a float and the tensor is unsigned of the same width.
void adopt_raw_floats(Tensor& tensor, DType wanted);

/// Floats are N(0, 1); integers and bool are 0 or 1 with equal probability. The same seed gives the same
/// elements on every machine.
void fill_random(Tensor& tensor, uint64_t seed);

struct Tolerance {
  double relative = 0, absolute = 0;
};
/// The tolerance for results of a dtype against ONNX's reference: exact for integers and bool.
Tolerance tolerance_of(DType dtype);
/// Empty where they agree, else a text with the first and the worst difference. NaN equals NaN.
std::string difference(const Tensor& actual, const Tensor& expected, Tolerance tolerance);

}  // namespace ferrite::cli
