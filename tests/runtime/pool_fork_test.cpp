// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pool in children of forks, which are made while jobs run and while workers are parked: all workers
// come, and the children end. Not among the tests for the thread sanitizer, which ends a child that starts
// threads.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>

#include "runtime/pool.h"

namespace ferrite::core::runtime {
namespace {

constexpr int64_t workers = 4;
constexpr unsigned seconds = 20;

/// Items that are done only once all of them are begun: each needs a worker of its own.
struct Meeting {
  std::atomic<int64_t> missing{workers};
  static void come(void* context, int64_t begin, int64_t end, int64_t) {
    auto& missing = static_cast<Meeting*>(context)->missing;
    missing -= end - begin;
    while (missing > 0) std::this_thread::yield();
  }
};

void meet() {
  Meeting meeting;
  Pool::process().parallel_for(workers, 1, workers, &meeting, Meeting::come);
}

/// The status of a child that calls `work`, and then ends by exit() or _exit(). A signal ends a child that
/// hangs.
template <class Work>
int status_of_child(bool by_exit, Work work) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(seconds);
    work();
    if (by_exit) std::exit(EXIT_SUCCESS);
    ::_exit(EXIT_SUCCESS);
  }
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return status;
}

TEST(PoolFork, AChildOfAnIdleProcessHasAllWorkers) {
  Pool::process().grow(workers);
  meet();
  for (const bool by_exit : {false, true})
    for (const int milliseconds : {0, 5}) {  // spinning workers, then parked ones
      std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
      EXPECT_EQ(status_of_child(by_exit,
                                [] {
                                  if (Pool::process().workers() < workers) ::_exit(EXIT_FAILURE);
                                  meet();
                                  meet();
                                }),
                0);
    }
  meet();
}

TEST(PoolFork, AChildMayEndWithoutAJob) {
  Pool::process().grow(workers);
  meet();
  EXPECT_EQ(status_of_child(true, [] {}), 0);
}

TEST(PoolFork, AChildOfAForkDuringAJobHasAllWorkers) {
  Pool::process().grow(workers);
  std::atomic<bool> done{false};
  std::thread busy([&] {
    while (!done) meet();
  });
  for (int turn = 0; turn < 40; ++turn) {
    std::this_thread::sleep_for(std::chrono::microseconds(37 * turn));
    EXPECT_EQ(status_of_child(turn % 2 == 0, meet), 0) << turn;
  }
  done = true;
  busy.join();
}

TEST(PoolFork, AChildGrowsThePoolAndForks) {
  Pool::process().grow(workers);
  EXPECT_EQ(status_of_child(true,
                            [] {
                              Pool::process().grow(workers + 2);
                              if (Pool::process().workers() < workers + 2) ::_exit(EXIT_FAILURE);
                              meet();
                              if (status_of_child(true, meet) != 0) ::_exit(EXIT_FAILURE);
                              meet();
                            }),
            0);
}

}  // namespace
}  // namespace ferrite::core::runtime
