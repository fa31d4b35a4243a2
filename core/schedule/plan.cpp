// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/schedule/plan.h"

#include <algorithm>
#include <numeric>

namespace ferrite::core::schedule {

namespace {

/// Lifetimes that have their place, found by the steps at which they are alive without a look at the others: a segment tree over
/// the steps has those that are alive at one step, a list for each step those that begin there.
class Placed {
 public:
  explicit Placed(std::span<const Lifetime> lifetimes) : lifetimes_(lifetimes) {
    for (const auto& life : lifetimes) steps_ = std::max(steps_, life.last + 1);
    beginning_.resize(steps_);
    covering_.resize(2 * steps_);
  }

  void add(size_t k) {
    const auto& life = lifetimes_[k];
    beginning_[life.first].push_back(k);
    size_t begin = life.first + steps_, end = life.last + 1 + steps_;
    for (; begin < end; begin /= 2, end /= 2) {
      if (begin % 2 == 1) covering_[begin++].push_back(k);
      if (end % 2 == 1) covering_[--end].push_back(k);
    }
  }

  /// Appends those that are alive at a step of k's, each once, in no order.
  void find(size_t k, std::vector<size_t>& found) const {
    const auto& life = lifetimes_[k];
    auto append = [&](const std::vector<size_t>& some) {
      found.insert(found.end(), some.begin(), some.end());
    };
    for (size_t node = life.first + steps_; node > 0; node /= 2) append(covering_[node]);
    for (size_t step = life.first + 1; step <= life.last; ++step) append(beginning_[step]);
  }

 private:
  std::span<const Lifetime> lifetimes_;
  size_t steps_ = 0;
  std::vector<std::vector<size_t>> beginning_, covering_;
};

}  // namespace

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

  Placed placed(lifetimes);
  std::vector<size_t> alive;
  for (size_t k : order) {
    const int64_t size = rounded(lifetimes[k].bytes);
    int64_t offset = 0;
    alive.clear();
    placed.find(k, alive);
    std::ranges::sort(alive, {}, [&](size_t other) { return plan.offsets[other]; });
    for (size_t other : alive) {
      if (plan.offsets[other] >= offset + size) break;
      offset = std::max(offset, plan.offsets[other] + rounded(lifetimes[other].bytes));
    }
    plan.offsets[k] = offset;
    plan.bytes = std::max(plan.bytes, offset + size);
    plan.sum += size;
    placed.add(k);
  }
  return plan;
}

}  // namespace ferrite::core::schedule
