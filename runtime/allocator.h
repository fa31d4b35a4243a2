// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Memory of devices from elsewhere than their runtimes: the pool of a program that embeds Ferrite.
#pragma once

#include <cstdint>

namespace ferrite::core::runtime {

class Device;

/// Any-thread. Lives as long as memory that it gave.
class Allocator {
 public:
  virtual ~Allocator() = default;
  /// Whether all memory of the device comes from here.
  virtual bool serves(const Device& device) const = 0;
  /// Aligned as the device says; null where there is none. `native_stream`: of the device's driver, whose work uses the memory; null: it
  /// has none.
  virtual void* alloc(const Device& device, uint64_t bytes, void* native_stream) = 0;
  /// What alloc() gave for the device; the work that used it is done, or in that stream.
  virtual void free(const Device& device, void* data) = 0;
};

}  // namespace ferrite::core::runtime
