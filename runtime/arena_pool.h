// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "core/support/error.h"
#include "runtime/device.h"

namespace ferrite::core::runtime {

/// Memory for arenas that contexts hold only during their runs: programs that run in turns, as the forward
/// and the backward part of a model do, use the same memory. Any-thread.
class ArenaPool {
 public:
  struct Arena {
    void* data = nullptr;
    int64_t bytes = 0;
  };
  /// The order of a stream, which keeps runs of a device apart that are still at work when they return.
  struct Order {
    void* native = nullptr;  ///< the driver's handle; null: runs are complete when they return
    void* stream = nullptr;  ///< the runtime's object for it
  };
  ArenaPool() = default;
  ArenaPool(const ArenaPool&) = delete;
  ~ArenaPool();

  /// An arena of at least these bytes, whose contents are undefined. The pool keeps as many arenas of a
  /// native stream as were taken at a time: one that is too small makes room for the new one. Errors of
  /// Device::alloc().
  Result<Arena> take(const std::shared_ptr<const Device>& device, int64_t bytes, const Order& order);
  void give_back(const std::shared_ptr<const Device>& device, Arena arena, const Order& order);

 private:
  struct Idle {
    std::shared_ptr<const Device> device;
    Arena arena;
    void* native = nullptr;
  };
  std::mutex mutex_;  // guards the member below
  std::vector<Idle> idle_;
};

}  // namespace ferrite::core::runtime
