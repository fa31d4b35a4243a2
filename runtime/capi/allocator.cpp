// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/capi/allocator.h"

#include <algorithm>
#include <cstring>

#include "runtime/capi/tensors.h"

namespace ferrite::core::capi {

Result<std::shared_ptr<GivenAllocator>> GivenAllocator::make(const ferrite_allocator& given) {
  ferrite_allocator table{};
  std::memcpy(&table, &given, std::min<size_t>(given.size, sizeof table));
  if (!table.alloc || !table.free)
    return at("ferrite_allocator",
              error(FE_EINVALID, "FE-X30", "'{}' is null or has no size", table.alloc ? "free" : "alloc"));
  return std::shared_ptr<GivenAllocator>(new GivenAllocator(table));
}

bool GivenAllocator::serves(const runtime::Device& device) const {
  return table_.device_type == 0 || table_.device_type == device.dlpack;
}

void* GivenAllocator::alloc(const runtime::Device& device, uint64_t bytes, void* native_stream) {
  void* const data = table_.alloc(table_.self, number_of(device), bytes, device.alignment, native_stream);
  if (!data) return nullptr;
  std::lock_guard lock(mutex_);
  blocks_[data] = {bytes, native_stream};
  return data;
}

void GivenAllocator::free(const runtime::Device& device, void* data) {
  Block block;
  {
    std::lock_guard lock(mutex_);
    if (auto given = blocks_.extract(data)) block = given.mapped();
  }
  table_.free(table_.self, number_of(device), data, block.bytes, block.stream);
}

}  // namespace ferrite::core::capi
