// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The one thread pool of the process. Idle workers spin, then park. The caller is worker 0.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

namespace ferrite::core::runtime {

/// Calls of parallel_for from several threads run one after the other. A call with a single range, and a
/// nested call, runs on its caller immediately. Kernels are compiled on the pool as well, so a launch may
/// wait for the compilation of another program.
class Pool {
 public:
  using Function = void (*)(void* context, int64_t begin, int64_t end, int64_t worker);

  /// The pool of this process, started at first use with one worker per processor. A child that is forked,
  /// even during a job, has an idle pool of as many workers, whose threads its first job starts.
  static Pool& process();

  explicit Pool(int64_t workers);
  ~Pool();
  Pool(const Pool&) = delete;

  /// The number of processors on which this process may run, which can be fewer than the machine has.
  static int64_t processors();

  /// The number of workers, including the caller.
  int64_t workers() const { return workers_.load(); }
  /// Starts threads until there are at least this many workers. Waits for a running parallel_for, so it must
  /// not be called from one.
  void grow(int64_t workers);

  /// Calls fn for disjoint ranges that cover [0, count), on at most `limit` workers (0: all). Each range
  /// except the last has at least `grain` items. Returns when all are done. `fn` must not throw.
  void parallel_for(int64_t count, int64_t grain, int64_t limit, void* context, Function fn);

 private:
  struct alignas(64) Job {
    void* context = nullptr;
    Function fn = nullptr;
    int64_t count = 0;
    int64_t divisor = 1;  ///< a range takes 1/divisor of the remaining items
    int64_t least = 1;    ///< minimum items of a range
    std::atomic<int64_t> limit{0};
    std::atomic<int64_t> next{0};
    std::atomic<int64_t> active{0};
  };
  /// Where a worker parks after spinning in vain.
  struct Bed {
    std::atomic<bool> parked{false};
    std::condition_variable wake;
  };
  void start(int64_t workers);
  void work(int64_t worker, Bed& bed);
  void drain(int64_t worker);
  void become_child();

  // Both are changed with callers_ and mutex_ held, and read with one of them.
  std::vector<std::thread> threads_;
  std::deque<Bed> beds_;  // of workers 1, 2, ...; a deque never moves its elements
  std::atomic<int64_t> workers_{1};
  std::mutex callers_;
  Job job_;
  std::atomic<uint64_t> generation_{0};
  std::atomic<bool> stopping_{false};
  std::mutex mutex_;
};

/// The number of pool workers for a program that asks for `threads` (0: all); starts them. `runs`: the
/// program runs in this process; then FE-X40, a warning, if it asks for more workers than there are
/// processors.
int64_t workers_for(int64_t threads, bool runs);

}  // namespace ferrite::core::runtime
