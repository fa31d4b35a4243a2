// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A child process that answers one request at a time, and may fail in any way without harm to this one.
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

namespace ferrite::core::isolate {

/// Control messages go over a socket, payloads through two pieces of shared memory, which this side reads and writes by copying and
/// never maps: what the child does to them meanwhile harms nobody. One thread at a time.
///
/// The child is a program of its own, started with posix_spawn, so that it works from a program with many threads. It is in a
/// process group of its own, which is killed and waited for with this object. It sees the end of this process as the end of its
/// socket, whatever it is doing then.
class Process {
 public:
  static constexpr uint64_t max_reply = uint64_t{1} << 30;  ///< bytes

  /// FE-P26 where the program cannot be started.
  static Result<std::unique_ptr<Process>> start(const std::string& program);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  /// Sends a request and waits for its reply: FE-P27 the child ended (how is in the text), FE-P28 it did not answer in time, or
  /// before `cancelled` (asked now and then) said yes, FE-P29 its answer is none. After any of them the child is gone, and every
  /// further call gives FE-P27.
  Result<Bytes> call(std::span<const std::byte> request, std::chrono::milliseconds timeout,
                     const std::function<bool()>& cancelled = {});

  pid_t id() const { return child_; }

 private:
  Process() = default;
  /// Whether there is something to read, or the child is gone, before the deadline or before it is cancelled.
  bool wait(std::chrono::steady_clock::time_point deadline, const std::function<bool()>& cancelled) const;
  Result<Bytes> receive();
  /// Waits for the child a little while, kills it where it goes on, and says how it ended.
  Error ended();
  void kill();

  FileDescriptor control_, request_, reply_;
  FileDescriptor watched_;  ///< readable once the child has ended
  pid_t child_ = -1;        ///< -1: none, or waited for
  uint32_t sequence_ = 0;
};

/// The first `count` bytes of a piece of shared memory; false where it is shorter.
bool read_shared(int descriptor, uint64_t count, Bytes& out);

}  // namespace ferrite::core::isolate
