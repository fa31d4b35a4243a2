// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A child process that answers one request at a time. Its failure, of whatever kind, does not harm this
// process.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "core/support/error.h"
#include "core/support/files/file_descriptor.h"
#include "driver/isolate/messages.h"
#include "runtime/forks.h"

namespace ferrite::core::isolate {

/// Control messages go over a socket, payloads through two shared memory files. This process reads and writes
/// these by copying and never maps them, so that concurrent changes by the child do no harm. One thread at a
/// time.
///
/// The child is a separate program, started with posix_spawn, so that starting it is safe in a program with
/// many threads. It has a process group of its own, which is killed and waited for when this object is
/// destroyed. If this process ends, the child sees its socket close and ends, whatever it is doing.
class Process {
 public:
  static constexpr uint64_t max_reply = uint64_t{1} << 30;  ///< bytes

  /// FE-P26 where the program cannot be started.
  static Result<std::unique_ptr<Process>> start(const std::string& program);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  /// Sends a request and waits for its reply. FE-P27: the child ended, with the manner of its end in the
  /// text; FE-P28: it did not answer in time, or `cancelled`, which is called regularly, returned true;
  /// FE-P29: its answer is malformed. After any of these errors the child is gone, and every further call
  /// gives FE-P27.
  Result<Bytes> call(std::span<const std::byte> request, std::chrono::milliseconds timeout,
                     const std::function<bool()>& cancelled = {});

  pid_t id() const { return child_; }
  /// Whether this process was forked after the start: the child belongs to the other one, which goes on
  /// talking to it. Here, a call fails with FE-P27, and destroying the object leaves the child alone.
  bool is_inherited() const { return forks_ != runtime::forks(); }

 private:
  Process() = default;
  /// Waits for data or the end of the child; false if the deadline passes or the call is cancelled first.
  bool wait(std::chrono::steady_clock::time_point deadline, const std::function<bool()>& cancelled) const;
  Result<Bytes> receive();
  /// Waits briefly for the child to end, kills it if it does not, and returns how it ended.
  Error ended();
  void kill();

  FileDescriptor control_, request_, reply_;
  FileDescriptor watched_;  ///< readable once the child has ended
  pid_t child_ = -1;        ///< -1: none, or waited for
  uint32_t sequence_ = 0;
  const uint64_t forks_ = runtime::forks();
};

/// The first `count` bytes of a shared memory file; false where it is shorter.
bool read_shared(int descriptor, uint64_t count, Bytes& out);

}  // namespace ferrite::core::isolate
