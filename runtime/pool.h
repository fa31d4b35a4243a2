// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The process's one thread pool: spin, then park. The caller is worker 0.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

namespace ferrite::core::runtime {

/// parallel_for from several threads at once is served one after the other; a call of one range, and a nested one, runs at once on its
/// caller alone. Kernels are compiled by it as well, so a launch may wait for those of another program.
class Pool {
 public:
  using Function = void (*)(void* context, int64_t begin, int64_t end, int64_t worker);

  /// The pool of this process, started when first used with as many workers as it has processors.
  static Pool& process();

  explicit Pool(int64_t workers);
  ~Pool();
  Pool(const Pool&) = delete;

  /// Processors that this process may run on; a machine may have more.
  static int64_t processors();

  /// Workers that exist, the caller counted.
  int64_t workers() const { return workers_.load(); }
  /// Starts threads until there are at least this many workers; waits for a parallel_for that runs. Not from inside of one.
  void grow(int64_t workers);

  /// Calls fn for disjoint ranges that cover [0, count), on at most `limit` workers (0 = all); every range but the last has at
  /// least `grain` items. Returns when all are done. `fn` must not throw.
  void parallel_for(int64_t count, int64_t grain, int64_t limit, void* context, Function fn);

 private:
  struct alignas(64) Job {
    void* context = nullptr;
    Function fn = nullptr;
    int64_t count = 0;
    int64_t shares = 1;  ///< a range is one of so many of what is left
    int64_t least = 1;   ///< items of a range
    std::atomic<int64_t> limit{0};
    std::atomic<int64_t> next{0};
    std::atomic<int64_t> active{0};
  };
  /// Where one worker waits when it has spun for nothing.
  struct Bed {
    std::atomic<bool> parked{false};
    std::condition_variable wake;
  };
  void work(int64_t worker, Bed& bed);
  void drain(int64_t worker);

  std::vector<std::thread> threads_;  // guarded by callers_
  std::deque<Bed> beds_;              // of worker 1, 2, ...; likewise
  std::atomic<int64_t> workers_{1};
  std::mutex callers_;
  Job job_;
  std::atomic<uint64_t> generation_{0};
  std::atomic<bool> stopping_{false};
  std::mutex mutex_;
};

/// How many workers of the process' pool a program has that asks for `threads`, 0 for all that there are; as many are started.
/// `runs`: it runs in this process: FE-X40, a warning, where there have to be more of them than processors.
int64_t workers_for(int64_t threads, bool runs);

}  // namespace ferrite::core::runtime
