// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/passes/watchdog.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

#include "core/support/abi/callback.h"

namespace ferrite::core::plugin {
namespace {

using Clock = std::chrono::steady_clock;
using callback::Frame;
using callback::Thread;

constexpr int exit_status = 70;

struct Crash {
  int signal;
  std::string_view name;
};
constexpr std::array<Crash, 5> crashes = {{{SIGSEGV, "segmentation fault"},
                                           {SIGBUS, "bus error"},
                                           {SIGFPE, "arithmetic error"},
                                           {SIGILL, "illegal instruction"},
                                           {SIGABRT, "abort"}}};
// The previous handlers, for crashes outside plugins.
std::array<struct sigaction, crashes.size()> previous;

/// Writes one line to standard error and ends the process. Async-signal-safe.
[[noreturn]] void end(std::string_view code, const Frame& frame, std::string_view what) {
  std::array<char, 1024> line;
  size_t length = 0;
  const auto add = [&](std::string_view text) {
    const size_t count = std::min(text.size(), line.size() - length);
    std::copy_n(text.begin(), count, line.begin() + static_cast<std::ptrdiff_t>(length));
    length += count;
  };
  add("ferrite: ");
  add(code);
  add(" ");
  length += callback::describe(frame, line.data() + length, line.size() - length - 256);
  add(": ");
  add(what);
  add("; disable it, or let it run apart with isolation = \"process\"\n");
  for (size_t written = 0; written < length;) {
    const ssize_t count = write(STDERR_FILENO, line.data() + written, length - written);
    if (count <= 0) break;
    written += static_cast<size_t>(count);
  }
  _exit(exit_status);
}

/// The call to blame for an event on this thread: the thread's own callback; for a worker that is in none, a
/// callback of another thread, because a plugin's kernels run on workers while its launch waits.
const Frame* blamed() {
  const Thread* own = callback::this_thread();
  if (const Frame* frame = own ? own->innermost() : nullptr) return frame;
  for (const Thread* thread = callback::threads(); thread; thread = thread->next)
    if (const Frame* frame = thread->innermost()) return frame;
  return nullptr;
}

void crashed(int signal, siginfo_t*, void*) {
  for (size_t k = 0; k < crashes.size(); ++k) {
    if (crashes[k].signal != signal) continue;
    if (const Frame* frame = blamed()) {
      std::array<char, 64> what;
      size_t length = 0;
      for (const std::string_view part :
           {std::string_view("it crashed ("), crashes[k].name, std::string_view(")")})
        for (const char c : part) what[length++] = c;
      end("FE-P60", *frame, {what.data(), length});
    }
    // Restore the previous handler and return: the faulting instruction runs again and reaches it. abort()
    // raises its signal again by itself.
    sigaction(signal, &previous[k], nullptr);
    if (signal == SIGABRT) raise(signal);
    return;
  }
}

void ended(const Frame& frame) { end("FE-P64", frame, "it ended the process"); }

void ended_quickly() {
  const Thread* own = callback::this_thread();
  if (const Frame* frame = own ? own->innermost() : nullptr) ended(*frame);
}

/// Samples the callbacks of all threads and looks for one that stays in place for `limit`.
[[noreturn]] void watch(std::chrono::milliseconds limit) {
  struct Seen {
    uint64_t serial = 0;
    Clock::time_point since;
  };
  std::unordered_map<const Thread*, std::array<Seen, Thread::deepest>> all;
  const auto pause = std::clamp(limit / 8, std::chrono::milliseconds(10), std::chrono::milliseconds(500));
  while (true) {
    std::this_thread::sleep_for(pause);
    const auto now = Clock::now();
    for (Thread* thread = callback::threads(); thread; thread = thread->next) {
      auto& seen = all[thread];
      const uint32_t depth = std::min(thread->depth.load(std::memory_order_acquire), Thread::deepest);
      // Blame the innermost call that has not changed: the outer calls only wait for it. If the inner calls
      // keep changing, the outer one is stuck.
      const Frame* stuck = nullptr;
      for (uint32_t k = 0; k < depth; ++k) {
        const uint64_t serial = thread->entries[k].serial.load(std::memory_order_acquire);
        if (serial != seen[k].serial) {
          seen[k] = {serial, now};
        } else if (now - seen[k].since >= limit) {
          stuck = thread->entries[k].frame.load(std::memory_order_acquire);
        }
      }
      if (stuck) end("FE-P65", *stuck, "it has not returned in time");
    }
  }
}

}  // namespace

void install_watchdog(std::chrono::milliseconds limit) {
  // After a stack overflow the handler needs another stack.
  static std::vector<char> stack(1 << 16);
  stack_t alternate{};
  alternate.ss_sp = stack.data();
  alternate.ss_size = stack.size();
  sigaltstack(&alternate, nullptr);
  for (size_t k = 0; k < crashes.size(); ++k) {
    struct sigaction action{};
    action.sa_sigaction = crashed;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    sigaction(crashes[k].signal, &action, &previous[k]);
  }
  callback::when_ended(ended);
  std::at_quick_exit(ended_quickly);
  if (limit.count() > 0) std::thread(watch, limit).detach();
}

}  // namespace ferrite::core::plugin
