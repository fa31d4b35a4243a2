// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Forks of the process. A child has one thread, and a copy of every lock as it was: a lock that another
// thread held stays locked for ever, and what it guards may be half changed.
#pragma once

#include <cstdint>

namespace ferrite::core::runtime {

/// How many forks lie between this process and the one that loaded the library.
uint64_t forks();

/// Further steps of a fork: `before` once it has waited for calls, then `after` in the parent and `in_child`
/// in the child.
struct ForkSteps {
  void (*before)();
  void (*after)();
  void (*in_child)();
};
/// Sets the steps of the pool, which are the only ones. With a pthread_atfork() of its own, the pool would
/// take its lock before the wait for calls, which need that lock to end.
void set_fork_steps(const ForkSteps& steps);

/// A call of the embedding API. A fork waits until no other thread is in one, and calls that begin meanwhile
/// wait for the fork. So all locks of the library, of LLVM and of plugins are free in a child, and what they
/// guard is whole. Taking each lock before a fork, or making them new in the child, would leave out those of
/// other libraries.
///
/// A fork waits for a minute at most, since a thread in a call may itself wait for the thread that forks. A
/// thread that forks within a call, from a plugin, waits for nobody. Calls may be nested. Any-thread.
class ForkSafeCall {
 public:
  ForkSafeCall();
  ~ForkSafeCall();
  ForkSafeCall(const ForkSafeCall&) = delete;
  ForkSafeCall& operator=(const ForkSafeCall&) = delete;

  /// False in a child that was forked while another thread was in a call: the call may touch nothing.
  static bool is_possible();
};

}  // namespace ferrite::core::runtime
