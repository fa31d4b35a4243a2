// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reference loops that kernels are compared with, written by hand with AVX-512 or AVX2, whichever the machine
// has: multiply-adds in registers, copies with the memory traffic of a kernel, an exponential loop with the
// polynomial of the code generator, and the best known loops for kernels that stay below their floor:
// products of few rows, gelu, transposition, softmax and layer norm.
#pragma once

#include <cstdint>
#include <functional>

namespace ferrite::bench {

enum class Store { plain, streaming };

constexpr int few = 4;

/// The reference loops for one vector instruction set.
struct Floors {
  const char* name;  ///< name of the instruction set

  /// Multiply-adds of whole vectors in independent chains; returns the operations done, two per multiply-add.
  double (*multiply_add)(int64_t turns);
  /// out[i] = x[i], or x[i] + y[i] if y is given; each worker processes its range of the array.
  void (*copy)(const float* x, const float* y, float* out, int64_t count, Store store, int worker,
               int workers);
  /// The sum of a worker's range.
  float (*read)(const float* x, int64_t count, int worker, int workers);
  /// out[i] = e^x[i], with correct denormal results, infinities and NaN; the count is a multiple of 16.
  void (*exponential)(const float* x, float* out, int64_t count);
  /// `few` rows of `size` elements times a matrix of size x size, a multiple of 2,048; each worker processes
  /// its range of columns. Transposed: out[r][c] is the product of row r and row c of the matrix.
  void (*few_rows)(const float* matrix, const float* rows, float* out, int64_t size, int worker, int workers);
  void (*few_rows_transposed)(const float* matrix, const float* rows, float* out, int64_t size, int worker,
                              int workers);
  /// out[i] = x[i] (1 + erf(x[i] / sqrt(2))) / 2.
  void (*gelu)(const float* x, float* out, int64_t count, int worker, int workers);
  /// out[i][j] = x[j][i] + y[i][j], of `rows` x `columns`, multiples of 256; each worker processes its range
  /// of rows.
  void (*transpose_add)(const float* x, const float* y, float* out, int64_t rows, int64_t columns, int worker,
                        int workers);
  /// The memory accesses of the loop above in the same order, without the transposition: each row of `out` is
  /// a row of `y` plus the sum of its block of `x`.
  void (*transpose_add_accesses)(const float* x, const float* y, float* out, int64_t rows, int64_t columns,
                                 int worker, int workers);
  /// Layer norm: rows of `columns`, a multiple of 64, minus their mean, divided by their deviation, times a
  /// scale, plus a bias.
  void (*layer_norm)(const float* x, const float* scale, const float* bias, float* out, int64_t rows,
                     int64_t columns, int worker, int workers);
  /// Softmax: rows of `columns`, a multiple of 32 of at most 4,096; their exponentials divided by the sum of
  /// these.
  void (*softmax)(const float* x, float* out, int64_t rows, int64_t columns, int worker, int workers);
};

/// The reference loops with the widest vectors of this machine; null if it has neither AVX-512 nor AVX2 with
/// fused multiply-adds.
const Floors* floors();

/// Runs work(worker, workers) on `workers` threads in parallel, each on its own processor if there are
/// enough; the caller is the first one. Returns the seconds from the moment when all are ready until the last
/// one ends.
double timed_on_threads(int workers, const std::function<void(int worker, int workers)>& work);

}  // namespace ferrite::bench
