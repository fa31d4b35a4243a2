// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A product in cuBLASLt's terms: column-major matrices, so that a row-major c[m, n] is its d with n rows and
// m columns.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "contraction/problem.h"
#include "cuda_library/device.h"

namespace ferrite::cublaslt {

/// A stored operand; leading, batch and offset in elements.
struct Matrix {
  int64_t rows = 1, columns = 1, leading = 1, batch = 0;
  bool transposed = false;
  contraction::Operand operand;
};

/// d = activation(a * b + c + bias by rows) for each batch, and for each point of the loops around it.
struct Product {
  DType type = f32, result = f32;
  bool tf32 = false;
  int64_t m = 1, n = 1, k = 1;  // rows of d, columns of d, and depth
  Matrix a, b, c, d;
  bool has_c = false;
  contraction::Operand bias;
  int64_t bias_batch = 0;
  uint32_t epilogue = 1;
  int64_t batches = 1;
  std::vector<contraction::Loop> around;

  int64_t launches() const;
  /// Offsets of a launch's operands, in elements.
  struct Offsets {
    int64_t a = 0, b = 0, c = 0, d = 0, bias = 0;
  };
  Offsets offsets(int64_t launch) const;
  /// The alignment of an operand's first element over all launches, in bytes: at most 16.
  int64_t alignment(int64_t Offsets::* operand, DType of) const;

  std::string text() const;  ///< for listings
  /// Estimate from the device's rates and the fraction of them that the library attains.
  double seconds(const cuda_library::Device& device) const;
};

/// Declines products that cuBLASLt cannot express.
Product product_of(const contraction::Problem& problem, bool tf32);

inline constexpr size_t most_parts = 4;

/// Divides the product into at most most_parts parts that run in sequence. The dims of the last part fill
/// vectors of 16 bytes, which the library's fast algorithms need; the earlier parts compute the remainders.
/// Empty if there is no remainder, or if no algorithm would be fast.
std::vector<Product> in_whole_vectors(const Product& product);

}  // namespace ferrite::cublaslt
