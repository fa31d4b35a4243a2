// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An allocator for device memory outside the runtimes: the memory pool of a program that embeds Ferrite.
#pragma once

#include <cstdint>

namespace ferrite::core::runtime {

class Device;

/// Any-thread. Lives as long as any memory that it allocated.
class Allocator {
 public:
  virtual ~Allocator() = default;
  /// Whether this allocator provides all memory of the device.
  virtual bool serves(const Device& device) const = 0;
  /// Allocates memory with the device's alignment; null if memory is short. `native_stream`: the driver's
  /// stream whose work will use the memory; null if the device has no streams.
  virtual void* alloc(const Device& device, uint64_t bytes, void* native_stream) = 0;
  /// Frees memory that alloc() returned for the device. The work that used it is finished or is in that
  /// stream.
  virtual void free(const Device& device, void* data) = 0;
};

}  // namespace ferrite::core::runtime
