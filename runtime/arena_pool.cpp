// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/arena_pool.h"

#include <utility>

namespace ferrite::core::runtime {

ArenaPool::~ArenaPool() {
  for (const auto& idle : idle_) idle.device->free(idle.arena.data, nullptr);
}

Result<ArenaPool::Arena> ArenaPool::take(const std::shared_ptr<const Device>& device, int64_t bytes,
                                         const Order& order) {
  Arena dropped;
  {
    std::lock_guard lock(mutex_);
    auto best = idle_.end();
    for (auto one = idle_.begin(); one != idle_.end(); ++one) {
      // Each program opens the device anew.
      if (one->device->runtime != device->runtime || one->device->number != device->number ||
          one->native != order.native)
        continue;
      // Takes the smallest arena that is large enough; where none is, the largest.
      const auto is_better = [&](const Arena& other) {
        const bool fits = one->arena.bytes >= bytes, other_fits = other.bytes >= bytes;
        if (fits != other_fits) return fits;
        return fits ? one->arena.bytes < other.bytes : one->arena.bytes > other.bytes;
      };
      if (best == idle_.end() || is_better(best->arena)) best = one;
    }
    if (best != idle_.end()) {
      const Arena found = best->arena;
      idle_.erase(best);
      if (found.bytes >= bytes) return found;
      dropped = found;
    }
  }
  // Before the new one is allocated, so that both are never there together.
  if (dropped.data) device->free(dropped.data, order.stream);
  FE_TRY(void* const data, device->alloc(bytes, order.stream));
  return Arena{data, bytes};
}

void ArenaPool::give_back(const std::shared_ptr<const Device>& device, Arena arena, const Order& order) {
  if (!arena.data) return;
  std::lock_guard lock(mutex_);
  idle_.push_back({device, arena, order.native});
}

}  // namespace ferrite::core::runtime
