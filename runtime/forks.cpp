// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/forks.h"

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

namespace ferrite::core::runtime {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds longest_wait{60};

// Process-wide state by design: what a fork copies is the process.
struct ForkState {
  std::atomic<int64_t> inside{0};       ///< threads in a call
  std::atomic<uint32_t> is_forking{0};  ///< 1: calls wait before they begin
  std::atomic<uint64_t> forks{0};
  std::atomic<bool> is_broken{false};
  std::mutex one;  ///< held by a fork
  std::atomic<const ForkSteps*> steps{nullptr};
} fork_state;

/// Nested calls of this thread.
thread_local int call_depth = 0;
/// Whether the fork that this thread makes holds `one`.
thread_local bool holds_fork = false;
/// The steps that the fork of this thread has begun.
thread_local const ForkSteps* begun = nullptr;

void wait_for_calls() {
  // Another fork may wait for the call that this thread is in.
  if (call_depth > 0) return;
  fork_state.one.lock();
  holds_fork = true;
  fork_state.is_forking.store(1);
  const auto deadline = Clock::now() + longest_wait;
  while (fork_state.inside.load() != 0 && Clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::microseconds(50));
}

void let_calls_begin() {
  if (!holds_fork) return;
  holds_fork = false;
  fork_state.is_forking.store(0);
  fork_state.is_forking.notify_all();
  fork_state.one.unlock();
}

void before_fork() {
  wait_for_calls();
  begun = fork_state.steps.load();
  if (begun) begun->before();
}

void after_fork() {
  if (begun) begun->after();
  let_calls_begin();
}

void in_child() {
  const int64_t own = call_depth > 0 ? 1 : 0;
  if (fork_state.inside.exchange(own) != own) fork_state.is_broken.store(true);
  fork_state.forks.fetch_add(1);
  if (begun) begun->in_child();
  let_calls_begin();
}

// Registered as the library is loaded, before there are calls. The C library removes the functions when the
// library is unloaded, since they are registered under its handle.
[[maybe_unused]] const int registered = pthread_atfork(before_fork, after_fork, in_child);

}  // namespace

void set_fork_steps(const ForkSteps& steps) { fork_state.steps.store(&steps); }

uint64_t forks() { return fork_state.forks.load(std::memory_order_relaxed); }

ForkSafeCall::ForkSafeCall() {
  if (call_depth++ > 0) return;
  while (true) {
    // Announce first, then look: a fork does it the other way round, so that one of them sees the other.
    fork_state.inside.fetch_add(1);
    if (fork_state.is_forking.load() == 0) return;
    fork_state.inside.fetch_sub(1);
    fork_state.is_forking.wait(1);
  }
}

ForkSafeCall::~ForkSafeCall() {
  if (--call_depth == 0) fork_state.inside.fetch_sub(1);
}

bool ForkSafeCall::is_possible() { return !fork_state.is_broken.load(std::memory_order_relaxed); }

}  // namespace ferrite::core::runtime
