// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Adapts the allocator that an embedding program provides.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "core/support/error.h"
#include "ferrite/ferrite.h"
#include "runtime/allocator.h"

namespace ferrite::core::capi {

class GivenAllocator final : public runtime::Allocator {
 public:
  /// FE-X30 if a function is missing.
  static Result<std::shared_ptr<GivenAllocator>> make(const ferrite_allocator& given);

  bool serves(const runtime::Device& device) const override;
  void* alloc(const runtime::Device& device, uint64_t bytes, void* native_stream) override;
  void free(const runtime::Device& device, void* data) override;

 private:
  explicit GivenAllocator(const ferrite_allocator& table) : table_(table) {}

  const ferrite_allocator table_;
  std::mutex mutex_;
  struct Block {
    uint64_t bytes = 0;
    void* stream = nullptr;
  };
  std::map<void*, Block> blocks_;  ///< allocated and not yet freed
};

}  // namespace ferrite::core::capi
