// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A product as cuBLASLt has it: matrices whose columns lie side by side, so that a row-major c[m, n] is its d of n rows and m columns.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "contraction/problem.h"
#include "cuda_library/device.h"

namespace ferrite::cublaslt {

/// An operand as it is stored; leading, batch and offset in elements.
struct Matrix {
  int64_t rows = 1, columns = 1, leading = 1, batch = 0;
  bool turned = false;
  contraction::Operand place;
};

/// d = activation(a * b + c + bias by rows), for each batch, and that for each point of the loops around it.
struct Product {
  DType type = f32, result = f32;
  bool tf32 = false;
  int64_t m = 1, n = 1, k = 1;  // d's rows, its columns, and what is summed
  Matrix a, b, c, d;
  bool has_c = false;
  contraction::Operand bias;
  int64_t bias_batch = 0;
  uint32_t epilogue = 1;
  int64_t batches = 1;
  std::vector<contraction::Loop> around;

  int64_t launches() const;
  /// Where operands of a launch lie, in elements.
  struct Offsets {
    int64_t a = 0, b = 0, c = 0, d = 0, bias = 0;
  };
  Offsets offsets(int64_t launch) const;
  /// To which an operand's first element is aligned in each launch, bytes: at most 16.
  int64_t alignment(int64_t Offsets::* operand, DType of) const;

  std::string text() const;  ///< for listings
  /// By the device's rates, and how much of them the library reaches.
  double seconds(const cuda_library::Device& device) const;
};

/// Declines what cuBLASLt has no form for.
Product product_of(const contraction::Problem& problem, bool tf32);

inline constexpr size_t most_parts = 4;

/// The product in parts that run one after another, at most most_parts: the last one's dims fill vectors of 16 bytes, as the library's fast
/// algorithms want; those before it are what is left over of its dims. Empty where there is nothing to divide, or no algorithm
/// would be fast for it.
std::vector<Product> in_whole_vectors(const Product& product);

}  // namespace ferrite::cublaslt
