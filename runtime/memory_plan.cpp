// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/memory_plan.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>

namespace ferrite::core::runtime {

namespace {

/// Bytes of the arena in [begin, end).
struct Range {
  int64_t begin, end;
};

/// Occupied ranges. Overlapping or adjacent ranges are merged, so that a row of neighbours costs as much as
/// one buffer.
class Taken {
 public:
  void add(Range range) {
    auto next = ends_.upper_bound(range.begin);
    if (next != ends_.begin() && std::prev(next)->second >= range.begin) {
      --next;
      range.begin = next->first;
    }
    for (; next != ends_.end() && next->first <= range.end; next = ends_.erase(next))
      range.end = std::max(range.end, next->second);
    ends_.emplace_hint(next, range.begin, range.end);
  }
  void append_to(std::vector<Range>& ranges) const {
    for (const auto& [begin, end] : ends_) ranges.push_back({begin, end});
  }

 private:
  std::map<int64_t, int64_t> ends_;  // end by begin
};

/// The ranges of buffers that already have offsets, indexed by the steps at which they live. Two segment
/// trees over the steps avoid a scan of all buffers: one finds the buffers alive at a given step, the other
/// those that begin within a range of steps.
class Placed {
 public:
  explicit Placed(std::span<const Lifetime> lifetimes) {
    for (const auto& life : lifetimes) steps_ = std::max(steps_, life.last + 1);
    beginning_.resize(2 * steps_);
    covering_.resize(2 * steps_);
  }

  void add(const Lifetime& life, Range range) {
    for (size_t node = life.first + steps_; node > 0; node /= 2) beginning_[node].add(range);
    cover(life.first, life.last + 1, [&](size_t node) { covering_[node].add(range); });
  }

  /// Appends the ranges of all buffers that live at a step of `life`, unordered.
  void find(const Lifetime& life, std::vector<Range>& found) const {
    for (size_t node = life.first + steps_; node > 0; node /= 2) covering_[node].append_to(found);
    cover(life.first + 1, life.last + 1, [&](size_t node) { beginning_[node].append_to(found); });
  }

 private:
  /// Visits the O(log n) nodes that together cover the steps in [begin, end).
  template <class Use>
  void cover(size_t begin, size_t end, const Use& use) const {
    for (begin += steps_, end += steps_; begin < end; begin /= 2, end /= 2) {
      if (begin % 2 == 1) use(begin++);
      if (end % 2 == 1) use(--end);
    }
  }

  size_t steps_ = 0;
  std::vector<Taken> beginning_, covering_;
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
  // Stable, so that equal sizes keep the order of the lifetimes and plans are reproducible.
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return lifetimes[a].bytes > lifetimes[b].bytes; });

  Placed placed(lifetimes);
  std::vector<Range> taken;
  for (size_t k : order) {
    const int64_t size = rounded(lifetimes[k].bytes);
    int64_t offset = 0;
    taken.clear();
    placed.find(lifetimes[k], taken);
    std::ranges::sort(taken, {}, &Range::begin);
    for (const auto& range : taken) {
      if (range.begin >= offset + size) break;
      offset = std::max(offset, range.end);
    }
    plan.offsets[k] = offset;
    plan.bytes = std::max(plan.bytes, offset + size);
    plan.sum += size;
    placed.add(lifetimes[k], {offset, offset + size});
  }
  return plan;
}

}  // namespace ferrite::core::runtime
