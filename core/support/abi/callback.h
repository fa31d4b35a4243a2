// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which callback of which plugin each thread is in, and the one way in which the host calls a plugin's functions.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <string_view>
#include <type_traits>

#include "core/support/abi/abi.h"

namespace ferrite::core::callback {

/// One call of a plugin's function. The strings outlive the call.
struct Frame {
  std::string_view plugin;      ///< its id; empty where `table` says it, or it is not known
  const char* what = "";        ///< what of the plugin is called: "pass", "shape rule of op"
  std::string_view name;        ///< of which one
  const void* table = nullptr;  ///< one that own() knows
};

/// Remembers whose table that is. Any-thread.
void own(const void* table, std::string_view plugin);

/// "plugin 'acme', pass 'acme.fold'" into `text`, always with a NUL; gives the length. Async-signal-safe.
size_t describe(const Frame& frame, char* text, size_t capacity);
std::string describe(const Frame& frame);

/// The calls that one thread is in, the outermost first. Read by other threads and by signal handlers; never freed.
struct Thread {
  static constexpr uint32_t deepest = 64;
  struct Entry {
    std::atomic<const Frame*> frame{nullptr};
    std::atomic<uint64_t> serial{0};  ///< another number for each call
  };
  Entry entries[deepest];
  std::atomic<uint32_t> depth{0};
  std::atomic<bool> in_use{true};
  uint64_t last_serial = 0;
  Thread* next = nullptr;

  /// The innermost call; null where there is none. Async-signal-safe.
  const Frame* innermost() const;
};
/// All threads that were ever in a callback: a list by `next`.
Thread* threads();
/// The calling thread's; null where it never was in a callback. Async-signal-safe.
Thread* this_thread();

/// What a thread does that ends while it is in a callback, as exit() called by a plugin makes it.
using Ended = void (*)(const Frame& innermost);
void when_ended(Ended ended);

/// A plugin used what it was lent against the rules: it is said on standard error, and the callback that the thread is in, if
/// any, fails with this code.
void misuse(std::string_view code, std::string_view text);

/// Marks the calling thread as being in a callback.
class Scope {
 public:
  explicit Scope(const Frame& frame);
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

  /// What the function gave, or the misuse that was noted meanwhile.
  int32_t leave(abi::Call& call, int32_t status);
  /// FE-P61: an exception left the function.
  int32_t thrown(abi::Call& call, std::string_view text) const;

 private:
  friend void misuse(std::string_view code, std::string_view text);
  const Frame frame_;
  Scope* const outer_;
  Thread& thread_;
  std::string misuse_code_, misuse_text_;
};

/// Calls a function of a plugin. What it throws, against the rules, is an error as well.
template <class Args, class Out>
int32_t call(const Frame& frame, int32_t (*slot)(void*, fe_call*, const Args*, Out*), void* self,
             abi::Call& call, const std::type_identity_t<Args>* args, std::type_identity_t<Out>* out) {
  Scope scope(frame);
  try {
    return scope.leave(call, slot(self, call.get(), args, out));
  } catch (const std::exception& exception) {
    return scope.thrown(call, exception.what());
  } catch (...) {
    return scope.thrown(call, "of unknown type");
  }
}

}  // namespace ferrite::core::callback
