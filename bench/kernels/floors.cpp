// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "floors.h"

#include <immintrin.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <limits>
#include <thread>
#include <utility>
#include <vector>

namespace ferrite::bench {
namespace {

/// A worker's range, in whole cache lines.
std::pair<int64_t, int64_t> part(int64_t count, int worker, int workers) {
  constexpr int64_t line = 16;
  const int64_t lines = count / line;
  return {lines * worker / workers * line, lines * (worker + 1) / workers * line};
}

}  // namespace

// The program must also run on machines that have neither instruction set, so each function names its target.
#define FERRITE_FLOOR __attribute__((target("avx512f")))
namespace avx512 {
namespace {
using Vector = __m512;
using Bits = __m512i;
constexpr int64_t lanes = 16;
constexpr int chains = 24;  // of 32 registers
FERRITE_FLOOR inline Vector splat(float value) { return _mm512_set1_ps(value); }
FERRITE_FLOOR inline Vector load(const float* from) { return _mm512_load_ps(from); }
FERRITE_FLOOR inline void store(float* to, Vector value) { _mm512_store_ps(to, value); }
FERRITE_FLOOR inline void stream(float* to, Vector value) { _mm512_stream_ps(to, value); }
FERRITE_FLOOR inline Vector add(Vector a, Vector b) { return _mm512_add_ps(a, b); }
FERRITE_FLOOR inline Vector subtract(Vector a, Vector b) { return _mm512_sub_ps(a, b); }
FERRITE_FLOOR inline Vector multiply(Vector a, Vector b) { return _mm512_mul_ps(a, b); }
FERRITE_FLOOR inline Vector divide(Vector a, Vector b) { return _mm512_div_ps(a, b); }
FERRITE_FLOOR inline Vector fused(Vector a, Vector b, Vector c) { return _mm512_fmadd_ps(a, b, c); }
FERRITE_FLOOR inline Vector smaller(Vector a, Vector b) { return _mm512_min_ps(a, b); }
FERRITE_FLOOR inline Vector larger(Vector a, Vector b) { return _mm512_max_ps(a, b); }
FERRITE_FLOOR inline Bits bits_of(Vector value) { return _mm512_castps_si512(value); }
FERRITE_FLOOR inline Vector floats_of(Bits bits) { return _mm512_castsi512_ps(bits); }
template <int by>
FERRITE_FLOOR inline Bits left(Bits bits) {
  return _mm512_slli_epi32(bits, by);
}
template <int by>
FERRITE_FLOOR inline Bits right(Bits bits) {
  return _mm512_srli_epi32(bits, by);
}
FERRITE_FLOOR inline Bits subtract(Bits a, Bits b) { return _mm512_sub_epi32(a, b); }
/// Combines two rows: the parts of the first row to the right of the diagonals of its `step` x `step`
/// squares, with the parts of the second row to the left.
template <int step>
FERRITE_FLOOR inline void exchange(Vector& a, Vector& b) {
  const Vector first = a;
  const __m512d a2 = _mm512_castps_pd(a), b2 = _mm512_castps_pd(b);
  if constexpr (step == 1) {
    a = _mm512_mask_moveldup_ps(first, 0xAAAA, b);
    b = _mm512_mask_movehdup_ps(b, 0x5555, first);
  } else if constexpr (step == 2) {
    a = _mm512_castpd_ps(_mm512_unpacklo_pd(a2, b2));
    b = _mm512_castpd_ps(_mm512_unpackhi_pd(a2, b2));
  } else if constexpr (step == 4) {
    a = _mm512_castpd_ps(_mm512_permutex2var_pd(a2, _mm512_setr_epi64(0, 1, 8, 9, 4, 5, 12, 13), b2));
    b = _mm512_castpd_ps(_mm512_permutex2var_pd(a2, _mm512_setr_epi64(2, 3, 10, 11, 6, 7, 14, 15), b2));
  } else {
    a = _mm512_shuffle_f32x4(first, b, 0x44);
    b = _mm512_shuffle_f32x4(first, b, 0xEE);
  }
}
/// Keeps the compiler from removing an unused value.
FERRITE_FLOOR inline void keep(Vector& value) { asm volatile("" : "+v"(value)); }
#include "floors_of_vectors.def"
}  // namespace
}  // namespace avx512
#undef FERRITE_FLOOR

#define FERRITE_FLOOR __attribute__((target("avx2,fma")))
namespace avx2 {
namespace {
using Vector = __m256;
using Bits = __m256i;
constexpr int64_t lanes = 8;
constexpr int chains = 12;  // of 16 registers
FERRITE_FLOOR inline Vector splat(float value) { return _mm256_set1_ps(value); }
FERRITE_FLOOR inline Vector load(const float* from) { return _mm256_load_ps(from); }
FERRITE_FLOOR inline void store(float* to, Vector value) { _mm256_store_ps(to, value); }
FERRITE_FLOOR inline void stream(float* to, Vector value) { _mm256_stream_ps(to, value); }
FERRITE_FLOOR inline Vector add(Vector a, Vector b) { return _mm256_add_ps(a, b); }
FERRITE_FLOOR inline Vector subtract(Vector a, Vector b) { return _mm256_sub_ps(a, b); }
FERRITE_FLOOR inline Vector multiply(Vector a, Vector b) { return _mm256_mul_ps(a, b); }
FERRITE_FLOOR inline Vector divide(Vector a, Vector b) { return _mm256_div_ps(a, b); }
FERRITE_FLOOR inline Vector fused(Vector a, Vector b, Vector c) { return _mm256_fmadd_ps(a, b, c); }
FERRITE_FLOOR inline Vector smaller(Vector a, Vector b) { return _mm256_min_ps(a, b); }
FERRITE_FLOOR inline Vector larger(Vector a, Vector b) { return _mm256_max_ps(a, b); }
FERRITE_FLOOR inline Bits bits_of(Vector value) { return _mm256_castps_si256(value); }
FERRITE_FLOOR inline Vector floats_of(Bits bits) { return _mm256_castsi256_ps(bits); }
template <int by>
FERRITE_FLOOR inline Bits left(Bits bits) {
  return _mm256_slli_epi32(bits, by);
}
template <int by>
FERRITE_FLOOR inline Bits right(Bits bits) {
  return _mm256_srli_epi32(bits, by);
}
FERRITE_FLOOR inline Bits subtract(Bits a, Bits b) { return _mm256_sub_epi32(a, b); }
/// As in the version above.
template <int step>
FERRITE_FLOOR inline void exchange(Vector& a, Vector& b) {
  const Vector first = a;
  const __m256d a2 = _mm256_castps_pd(a), b2 = _mm256_castps_pd(b);
  if constexpr (step == 1) {
    a = _mm256_blend_ps(first, _mm256_moveldup_ps(b), 0xAA);
    b = _mm256_blend_ps(b, _mm256_movehdup_ps(first), 0x55);
  } else if constexpr (step == 2) {
    a = _mm256_castpd_ps(_mm256_unpacklo_pd(a2, b2));
    b = _mm256_castpd_ps(_mm256_unpackhi_pd(a2, b2));
  } else {
    a = _mm256_permute2f128_ps(first, b, 0x20);
    b = _mm256_permute2f128_ps(first, b, 0x31);
  }
}
/// Keeps the compiler from removing an unused value.
FERRITE_FLOOR inline void keep(Vector& value) { asm volatile("" : "+x"(value)); }
#include "floors_of_vectors.def"
}  // namespace
}  // namespace avx2
#undef FERRITE_FLOOR

const Floors* floors() {
  static constexpr Floors wide{"AVX-512",
                               avx512::multiply_add,
                               avx512::copy,
                               avx512::read,
                               avx512::exponential,
                               avx512::few_rows,
                               avx512::few_rows_transposed,
                               avx512::gelu,
                               avx512::transpose_add,
                               avx512::transpose_add_accesses,
                               avx512::layer_norm,
                               avx512::softmax};
  static constexpr Floors narrow{"AVX2",
                                 avx2::multiply_add,
                                 avx2::copy,
                                 avx2::read,
                                 avx2::exponential,
                                 avx2::few_rows,
                                 avx2::few_rows_transposed,
                                 avx2::gelu,
                                 avx2::transpose_add,
                                 avx2::transpose_add_accesses,
                                 avx2::layer_norm,
                                 avx2::softmax};
  if (__builtin_cpu_supports("avx512f")) return &wide;
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? &narrow : nullptr;
}

double timed_on_threads(int workers, const std::function<void(int, int)>& work) {
  using Clock = std::chrono::steady_clock;
  std::atomic<int> ready{0}, done{0};
  std::vector<std::thread> threads;
  threads.reserve(static_cast<size_t>(workers));
  for (int worker = 1; worker < workers; ++worker)
    threads.emplace_back([&, worker] {
      ready.fetch_add(1);
      while (ready.load() < workers) _mm_pause();
      work(worker, workers);
      done.fetch_add(1);
    });
  while (ready.load() < workers - 1) _mm_pause();
  const auto start = Clock::now();
  ready.fetch_add(1);
  work(0, workers);
  done.fetch_add(1);
  while (done.load() < workers) _mm_pause();
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  for (auto& thread : threads) thread.join();
  return seconds;
}

}  // namespace ferrite::bench
