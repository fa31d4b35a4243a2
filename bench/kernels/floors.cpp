// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "floors.h"

#include <immintrin.h>
#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#define FERRITE_WIDE __attribute__((target("avx512f")))

namespace ferrite::bench {
namespace {

constexpr int64_t lanes = 16;

/// A worker's part, in whole lines of a cache.
std::pair<int64_t, int64_t> part(int64_t count, int worker, int workers) {
  const int64_t lines = count / lanes;
  return {lines * worker / workers * lanes, lines * (worker + 1) / workers * lanes};
}

/// Keeps the compiler from leaving out what nobody reads.
FERRITE_WIDE void keep(__m512& value) { asm volatile("" : "+v"(value)); }

template <Store store>
FERRITE_WIDE void put(float* out, __m512 value) {
  if constexpr (store == Store::streaming)
    _mm512_stream_ps(out, value);
  else
    _mm512_store_ps(out, value);
}

template <Store store>
FERRITE_WIDE void copy_as(const float* x, const float* y, float* out, int64_t begin, int64_t end) {
  if (y) {
    for (int64_t i = begin; i < end; i += lanes)
      put<store>(out + i, _mm512_add_ps(_mm512_load_ps(x + i), _mm512_load_ps(y + i)));
  } else {
    for (int64_t i = begin; i < end; i += lanes) put<store>(out + i, _mm512_load_ps(x + i));
  }
  if (store == Store::streaming) _mm_sfence();
}

}  // namespace

bool can_run_floors() { return __builtin_cpu_supports("avx512f"); }

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

FERRITE_WIDE double multiply_add(int64_t turns) {
  constexpr int chains = 24;
  __m512 sums[chains], factor = _mm512_set1_ps(0.999F);
  for (int k = 0; k < chains; ++k) sums[k] = _mm512_set1_ps(static_cast<float>(k));
  keep(factor);
  for (int64_t turn = 0; turn < turns; ++turn) {
#pragma GCC unroll 24
    for (int k = 0; k < chains; ++k) sums[k] = _mm512_fmadd_ps(sums[k], factor, factor);
  }
  for (auto& sum : sums) keep(sum);
  return 2.0 * chains * lanes * static_cast<double>(turns);
}

void copy(const float* x, const float* y, float* out, int64_t count, Store store, int worker, int workers) {
  const auto [begin, end] = part(count, worker, workers);
  if (store == Store::streaming)
    copy_as<Store::streaming>(x, y, out, begin, end);
  else
    copy_as<Store::plain>(x, y, out, begin, end);
}

FERRITE_WIDE float read(const float* x, int64_t count, int worker, int workers) {
  const auto [begin, end] = part(count, worker, workers);
  constexpr int chains = 8;
  __m512 sums[chains];
  for (auto& sum : sums) sum = _mm512_setzero_ps();
  int64_t i = begin;
  for (; i + chains * lanes <= end; i += chains * lanes) {
#pragma GCC unroll 8
    for (int k = 0; k < chains; ++k) sums[k] = _mm512_add_ps(sums[k], _mm512_load_ps(x + i + k * lanes));
  }
  for (; i < end; i += lanes) sums[0] = _mm512_add_ps(sums[0], _mm512_load_ps(x + i));
  for (int k = 1; k < chains; ++k) sums[0] = _mm512_add_ps(sums[0], sums[k]);
  return _mm512_reduce_add_ps(sums[0]);
}

// Cody and Waite's reduction, x = n log(2) + r, and the polynomial (e^r - 1 - r) / r^2 of backends/llvm; 2^n in two factors, so that it
// may lead to denormals and infinity.
FERRITE_WIDE void exponential(const float* x, float* out, int64_t count) {
  const __m512 low = _mm512_set1_ps(-105), high = _mm512_set1_ps(91),
               log2_of_e = _mm512_set1_ps(0x1.715476p+0F), rounder = _mm512_set1_ps(0x1.8p23F + 254),
               minus_log2 = _mm512_set1_ps(-0x1.62e43p-1F), minus_rest = _mm512_set1_ps(0x1.05c61p-29F),
               one = _mm512_set1_ps(1), c0 = _mm512_set1_ps(0x1.fffffep-2F),
               c1 = _mm512_set1_ps(0x1.5554a8p-3F), c2 = _mm512_set1_ps(0x1.555796p-5F),
               c3 = _mm512_set1_ps(0x1.122e28p-7F), c4 = _mm512_set1_ps(0x1.6ac05p-10F);
  for (int64_t i = 0; i < count; i += lanes) {
    // The second operand comes where one is NaN.
    const __m512 value = _mm512_min_ps(high, _mm512_max_ps(low, _mm512_load_ps(x + i)));
    const __m512 shifted = _mm512_fmadd_ps(value, log2_of_e, rounder), n = _mm512_sub_ps(shifted, rounder);
    const __m512 r = _mm512_fmadd_ps(n, minus_rest, _mm512_fmadd_ps(n, minus_log2, value));
    __m512 p = _mm512_fmadd_ps(c4, r, c3);
    p = _mm512_fmadd_ps(p, r, c2);
    p = _mm512_fmadd_ps(p, r, c1);
    p = _mm512_fmadd_ps(p, r, c0);
    p = _mm512_fmadd_ps(_mm512_fmadd_ps(p, r, one), r, one);
    const __m512i bits = _mm512_castps_si512(shifted);
    const __m512i first = _mm512_slli_epi32(_mm512_srli_epi32(bits, 1), 23);
    const __m512i second = _mm512_sub_epi32(_mm512_slli_epi32(bits, 23), first);
    p = _mm512_mul_ps(_mm512_mul_ps(p, _mm512_castsi512_ps(first)), _mm512_castsi512_ps(second));
    _mm512_store_ps(out + i, p);
  }
}

}  // namespace ferrite::bench
