// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What kernels are measured against, written by hand with AVX-512 or AVX2, whichever the machine has: multiply-adds in registers,
// copies that read and write as much as a kernel does, an exponential loop with the polynomial of the code generator, and the best
// loops known for what stays below its floor: products of few rows, gelu, transposes, softmax and layer norms.
#pragma once

#include <cstdint>
#include <functional>

namespace ferrite::bench {

enum class Store { plain, streaming };

constexpr int few = 4;

/// The floors in the vectors of one kind of machine.
struct Floors {
  const char* name;  ///< of the vectors

  /// Multiply-adds of whole vectors in independent chains; the operations that were done, two a multiply-add.
  double (*multiply_add)(int64_t turns);
  /// out[i] = x[i], or x[i] + y[i] where y is given; each worker its part of the array.
  void (*copy)(const float* x, const float* y, float* out, int64_t count, Store store, int worker,
               int workers);
  /// The sum of a worker's part.
  float (*read)(const float* x, int64_t count, int worker, int workers);
  /// out[i] = e^x[i], with denormal results, infinities and NaN as they should be; the count is a multiple of 16.
  void (*exponential)(const float* x, float* out, int64_t count);
  /// `few` rows of `size` times a matrix of size x size, a multiple of 2,048; each worker its part of the columns. Turned: out[r][c] is
  /// the product of row r and row c of the matrix.
  void (*few_rows)(const float* matrix, const float* rows, float* out, int64_t size, int worker, int workers);
  void (*few_rows_turned)(const float* matrix, const float* rows, float* out, int64_t size, int worker,
                          int workers);
  /// out[i] = x[i] (1 + erf(x[i] / sqrt(2))) / 2.
  void (*gelu)(const float* x, float* out, int64_t count, int worker, int workers);
  /// out[i][j] = x[j][i] + y[i][j], of `rows` x `columns`, multiples of 256; each worker its part of the rows.
  void (*transpose_add)(const float* x, const float* y, float* out, int64_t rows, int64_t columns, int worker,
                        int workers);
  /// What the loop above reads and writes, in its order, but with nothing transposed: each row of `out` gets that of `y` and what its tile of
  /// `x` adds up to.
  void (*transpose_add_accesses)(const float* x, const float* y, float* out, int64_t rows, int64_t columns,
                                 int worker, int workers);
  /// Rows of `columns`, a multiple of 64, less their mean and divided by their deviation, times a scale, plus a bias.
  void (*layer_norm)(const float* x, const float* scale, const float* bias, float* out, int64_t rows,
                     int64_t columns, int worker, int workers);
  /// Rows of `columns`, a multiple of 32 of at most 4,096: their exponentials divided by the sum of these.
  void (*softmax)(const float* x, float* out, int64_t rows, int64_t columns, int worker, int workers);
};

/// Those with the widest vectors that this machine has; null where it has neither AVX-512 nor AVX2 with fused multiply-adds.
const Floors* floors();

/// Runs work(worker, workers) on as many threads at once, each on a processor of its own where there are enough; the caller is the
/// first one. Returns the seconds from when all were ready to the last one's end.
double timed_on_threads(int workers, const std::function<void(int worker, int workers)>& work);

}  // namespace ferrite::bench
