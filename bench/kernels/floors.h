// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What kernels are measured against, written by hand with AVX-512: multiply-adds in registers, copies that read and write as much as a
// kernel does, and an exponential loop with the polynomial of the code generator.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

namespace ferrite::bench {

/// Whether this machine runs them.
bool can_run_floors();

/// Runs work(worker, workers) on as many threads at once, each on a processor of its own where there are enough; the caller is the
/// first one. Returns the seconds from when all were ready to the last one's end.
double timed_on_threads(int workers, const std::function<void(int worker, int workers)>& work);

/// Multiply-adds of 16 floats in 24 independent chains; the operations that were done, two a multiply-add.
double multiply_add(int64_t turns);

enum class Store { plain, streaming };

/// out[i] = x[i], or x[i] + y[i] where y is given; each worker its part of the array.
void copy(const float* x, const float* y, float* out, int64_t count, Store store, int worker, int workers);
/// The sum of a worker's part.
float read(const float* x, int64_t count, int worker, int workers);

/// out[i] = e^x[i], with denormal results, infinities and NaN as they should be.
void exponential(const float* x, float* out, int64_t count);

}  // namespace ferrite::bench
