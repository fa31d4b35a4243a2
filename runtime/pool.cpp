// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/pool.h"

#include <sched.h>

#include <algorithm>
#include <new>
#include <system_error>

#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#endif

#include <fmt/format.h>

#include "core/support/error.h"
#include "core/support/warning.h"
#include "ferrite/counted.hpp"
#include "runtime/forks.h"

namespace ferrite::core::runtime {
namespace {

// About 20 microseconds of spinning before a worker parks: longer than the gap between two kernels of a
// model.
constexpr int spins_before_parking = 4000;

void pause() {
#if defined(__x86_64__) || defined(__i386__)
  _mm_pause();
#else
  std::this_thread::yield();
#endif
}

thread_local bool inside_parallel_for = false;

/// The pool of the process, while it exists.
std::atomic<Pool*> of_process{nullptr};
/// The pool whose mutex_ this thread holds during a fork.
thread_local Pool* forked = nullptr;

}  // namespace

int64_t Pool::processors() {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) == 0) return std::max(1, CPU_COUNT(&allowed));
  return std::max<int64_t>(1, std::thread::hardware_concurrency());
}

Pool& Pool::process() {
  static Pool& pool = []() -> Pool& {
    static Pool made(processors());
    of_process.store(&made);
    // A child has none of the threads, and locks as other threads held them. Changes under mutex_ could not
    // be completed there, so a fork takes it; it is held for moments only. A fork need not wait for a job,
    // which the parent completes.
    static constexpr ForkSteps steps{[] {
                                       forked = of_process.load();
                                       if (forked) forked->mutex_.lock();
                                     },
                                     [] {
                                       if (forked) forked->mutex_.unlock();
                                     },
                                     [] {
                                       if (forked) forked->become_child();
                                     }};
    set_fork_steps(steps);
    return made;
  }();
  return pool;
}

/// Makes the pool idle in a child of a fork. Threads and conditions are not destroyed but made anew in place:
/// there is nobody to join, and destroying a condition waits for those who wait for it.
void Pool::become_child() {
  for (auto& thread : threads_) new (&thread) std::thread();
  for (auto& bed : beds_) new (&bed) Bed();
  threads_.clear();
  beds_.clear();
  new (&callers_) std::mutex();
  job_.active.store(0);
  if (generation_.load() % 2 == 1) generation_.fetch_add(1);
  mutex_.unlock();
}

Pool::Pool(int64_t workers) { grow(workers); }

Pool::~Pool() {
  Pool* self = this;
  of_process.compare_exchange_strong(self, nullptr);
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  for (auto& bed : beds_) bed.wake.notify_one();
  for (auto& thread : threads_) thread.join();
}

void Pool::grow(int64_t workers) {
  std::lock_guard lock(callers_);
  workers = std::max(workers, workers_.load());
  start(workers);
  workers_.store(workers);
}

/// Starts the threads that are missing. Requires callers_.
void Pool::start(int64_t workers) {
  for (auto worker = static_cast<int64_t>(threads_.size()) + 1; worker < workers; ++worker) {
    std::lock_guard lock(mutex_);
    auto& bed = beds_.emplace_back();
    try {
      threads_.emplace_back([this, worker, &bed] { work(worker, bed); });
    } catch (...) {
      beds_.pop_back();
      throw;
    }
  }
}

void Pool::work(int64_t worker, Bed& bed) {
  inside_parallel_for = true;
  uint64_t seen = 0;
  // An odd generation means that a job is running. A job with a limit is no news for workers beyond the
  // limit: they are neither woken nor spin for it, which leaves their processors to other work.
  auto is_news = [&] {
    uint64_t now = generation_.load();
    return stopping_.load() || (now != seen && now % 2 == 1 && worker < job_.limit.load());
  };
  while (true) {
    for (int spins = 0; !is_news(); ++spins) {
      if (spins < spins_before_parking) {
        pause();
        continue;
      }
      std::unique_lock park(mutex_);
      bed.parked.store(true);
      bed.wake.wait(park, is_news);
      bed.parked.store(false);
    }
    if (stopping_.load()) return;
    seen = generation_.load();
    // Announce first, then check again. The caller ends the generation first and then waits for announced
    // workers. So a late worker is either waited for or notices that it is late, and the job's fields change
    // only while no worker reads them.
    job_.active.fetch_add(1);
    if (seen % 2 == 1 && generation_.load() == seen && worker < job_.limit.load()) drain(worker);
    job_.active.fetch_sub(1);
  }
}

void Pool::drain(int64_t worker) {
  int64_t begin = job_.next.load();
  while (begin < job_.count) {
    const int64_t left = job_.count - begin;
    const int64_t end = begin + std::min(left, std::max(job_.least, left / job_.divisor));
    if (!job_.next.compare_exchange_weak(begin, end)) continue;
    job_.fn(job_.context, begin, end, worker);
    begin = job_.next.load();
  }
}

void Pool::parallel_for(int64_t count, int64_t grain, int64_t limit, void* context, Function fn) {
  if (count <= 0) return;
  grain = std::max<int64_t>(1, grain);
  int64_t wanted = std::min(limit > 0 ? limit : workers(), (count + grain - 1) / grain);
  if (wanted <= 1 || inside_parallel_for) {
    fn(context, 0, count, 0);
    return;
  }
  std::lock_guard lock(callers_);
  try {
    start(workers());
  } catch (const std::system_error&) {
    // A child may start fewer threads than its parent had. Those that there are do the job.
    workers_.store(static_cast<int64_t>(threads_.size()) + 1);
  }
  inside_parallel_for = true;
  job_.context = context;
  job_.fn = fn;
  job_.count = count;
  // A range takes a quarter of a worker's even part of the remaining items. The last ranges are therefore
  // short and balance differing costs and other load on the machine. Polychronopoulos and Kuck, "Guided
  // self-scheduling" (1987), with a fraction per range as in Hummel et al., "Factoring" (1992).
  constexpr int64_t most_ranges = 32;  // upper bound per worker, roughly
  job_.divisor = 4 * wanted;
  job_.least = std::max(grain, count / (wanted * most_ranges));
  job_.limit.store(wanted);
  job_.next.store(0);
  {
    std::lock_guard park(mutex_);
    generation_.fetch_add(1);
  }
  for (auto bed = beds_.begin(); bed != beds_.end() && bed - beds_.begin() < wanted - 1; ++bed)
    if (bed->parked.load()) bed->wake.notify_one();
  drain(0);
  generation_.fetch_add(1);
  while (job_.active.load() != 0) pause();
  inside_parallel_for = false;
}

int64_t workers_for(int64_t threads, bool runs) {
  auto& pool = Pool::process();
  const int64_t processors = Pool::processors();
  // Warn only once: afterwards the workers exist.
  if (runs && threads > processors && threads > pool.workers())
    log::warn("kernels", error(FE_EINVALID, "FE-X40",
                               "{} threads are asked for, and this process may use {}: they take turns, "
                               "and runs are slower; ask for {} at most, or leave the number out",
                               threads, counted(processors, "processor"), processors)
                             .message());
  pool.grow(threads);
  return threads > 0 ? threads : pool.workers();
}

}  // namespace ferrite::core::runtime
