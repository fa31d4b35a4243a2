// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/schedule/plan.h"

#include <algorithm>
#include <numeric>

namespace ferrite::core::schedule {

MemoryPlan plan_memory(std::span<const Lifetime> lifetimes, int64_t alignment) {
  MemoryPlan plan;
  plan.offsets.assign(lifetimes.size(), 0);
  auto rounded = [&](int64_t bytes) {
    return (std::max<int64_t>(bytes, 1) + alignment - 1) / alignment * alignment;
  };
  std::vector<size_t> order(lifetimes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return lifetimes[a].bytes > lifetimes[b].bytes; });

  std::vector<size_t> placed;  // by offset
  for (size_t k : order) {
    const auto& life = lifetimes[k];
    int64_t size = rounded(life.bytes), offset = 0;
    for (size_t other : placed) {
      const auto& o = lifetimes[other];
      if (o.last < life.first || life.last < o.first) continue;
      if (plan.offsets[other] >= offset + size) break;
      offset = std::max(offset, plan.offsets[other] + rounded(o.bytes));
    }
    plan.offsets[k] = offset;
    plan.bytes = std::max(plan.bytes, offset + size);
    plan.sum += size;
    placed.insert(std::upper_bound(placed.begin(), placed.end(), k,
                                   [&](size_t a, size_t b) { return plan.offsets[a] < plan.offsets[b]; }),
                  k);
  }
  return plan;
}

}  // namespace ferrite::core::schedule
