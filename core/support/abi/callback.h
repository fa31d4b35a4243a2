// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tracks which plugin's callback each thread is in. All calls of plugin functions go through call().
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

/// One call of a plugin's function. The caller keeps the strings alive for the duration of the call.
struct Frame {
  std::string_view plugin;      ///< the plugin's id; empty if `table` identifies it, or it is unknown
  const char* what = "";        ///< the kind of function: "pass", "shape rule of op"
  std::string_view name;        ///< the name of the pass, op, ...
  const void* table = nullptr;  ///< a table registered with own(); may be null
};

/// Records that `table` belongs to `plugin`. Any-thread.
void own(const void* table, std::string_view plugin);

/// Writes "plugin 'acme', pass 'acme.fold'" and a NUL to `text`, cut to `capacity`; returns the length.
/// Async-signal-safe.
size_t describe(const Frame& frame, char* text, size_t capacity);
std::string describe(const Frame& frame);

/// The stack of callbacks that one thread is in, outermost first. Other threads and signal handlers read it,
/// so it is never freed.
struct Thread {
  static constexpr uint32_t deepest = 64;
  struct Entry {
    std::atomic<const Frame*> frame{nullptr};
    std::atomic<uint64_t> serial{0};  ///< unique for each call
  };
  Entry entries[deepest];
  std::atomic<uint32_t> depth{0};
  std::atomic<bool> in_use{true};
  uint64_t last_serial = 0;
  Thread* next = nullptr;

  /// The innermost call; null where there is none. Async-signal-safe.
  const Frame* innermost() const;
};
/// All threads that were ever in a callback, linked by `next`.
Thread* threads();
/// The calling thread's record; null if it was never in a callback. Async-signal-safe.
Thread* this_thread();

/// Called when a thread ends inside a callback, for example because a plugin calls exit().
using Ended = void (*)(const Frame& innermost);
void when_ended(Ended ended);

/// Reports that a plugin violated the rules of a borrowed object: prints the text to standard error and, if
/// the thread is in a callback, makes that callback fail with this code.
void misuse(std::string_view code, std::string_view text);

/// Marks the calling thread as being in a callback.
class Scope {
 public:
  explicit Scope(const Frame& frame);
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

  /// The function's own status, or the error of a misuse that was reported during the call.
  int32_t leave(abi::Call& call, int32_t status);
  /// FE-P61: the function threw an exception.
  int32_t thrown(abi::Call& call, std::string_view text) const;

 private:
  friend void misuse(std::string_view code, std::string_view text);
  const Frame frame_;
  Scope* const outer_;
  Thread& thread_;
  std::string misuse_code_, misuse_text_;
};

/// Calls a function of a plugin. An exception from it (the ABI forbids them) becomes an error, too.
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
