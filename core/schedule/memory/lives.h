// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// When the buffers of a schedule live, for the steps that reduce the memory between kernels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/schedule/schedule.h"

namespace ferrite::core::schedule {

/// A lower peak, in bytes, is not worth optimising.
constexpr int64_t small_peak = 2 << 10;

/// The lifetimes of storages between groups, and the accesses of each group.
struct Lives {
  struct Life {
    size_t first = SIZE_MAX, last = 0;  ///< groups; first > last: no group accesses it
    bool arena = false;                 ///< it lives in the arena, the memory between kernels
  };
  std::vector<Life> lives;                     ///< by storage
  std::vector<uint32_t> versions;              ///< by storage: the number of its last version
  std::vector<std::vector<BufferId>> touched;  ///< by group: storages, each once, in order
  std::vector<std::vector<BufferId>> read, written;

  explicit Lives(const Schedule& schedule);
};

/// By group, the bytes that live in the arena while it runs.
std::vector<int64_t> live_bytes(const Schedule& schedule, const Lives& lives);

/// The largest of them; 0 where there are none.
int64_t peak(const std::vector<int64_t>& bytes);

}  // namespace ferrite::core::schedule
