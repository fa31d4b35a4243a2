// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The memory plan: offsets in one arena for the buffers that live between kernels.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ferrite::core::runtime {

/// A buffer that lives from step `first` to step `last`, both inclusive.
struct Lifetime {
  int64_t bytes = 0;
  size_t first = 0, last = 0;
};

struct MemoryPlan {
  std::vector<int64_t> offsets;  ///< in bytes, one per lifetime
  int64_t bytes = 0;             ///< size of the arena
  int64_t sum = 0;               ///< total size of all buffers, without reuse
};

/// Chooses offsets such that buffers that are alive at the same step do not overlap: largest buffer first,
/// each into the lowest gap that fits ("greedy by size", Pisarchyk and Lee, 2020). Offsets are multiples of
/// `alignment`.
MemoryPlan plan_memory(std::span<const Lifetime> lifetimes, int64_t alignment);

}  // namespace ferrite::core::runtime
