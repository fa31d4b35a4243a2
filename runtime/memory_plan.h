// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The memory plan: where the buffers that live between kernels lie in one arena.
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
  std::vector<int64_t> offsets;  ///< bytes, one a lifetime
  int64_t bytes = 0;             ///< of the arena
  int64_t sum = 0;               ///< of all buffers, without reuse
};

/// Offsets such that buffers alive at the same step do not overlap: the largest buffer first, each into the lowest gap that
/// fits (the "greedy by size" strategy of Pisarchyk and Lee, 2020). Offsets are multiples of `alignment`.
MemoryPlan plan_memory(std::span<const Lifetime> lifetimes, int64_t alignment);

}  // namespace ferrite::core::runtime
