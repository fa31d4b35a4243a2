// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Scans (running sums) on a GPU: a serial loop whose carried values each step combines with a value of its
// own by an associative operation. A block iterates over a row in chunks, and each thread of the block owns
// some adjacent elements of a chunk. The threads combine their results in a hypercube pattern (Hillis and
// Steele, "Data parallel algorithms", 1986, do the same with shared memory alone).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "backends/llvm/gpu/nest/thread_block.h"
#include "ferrite/analysis/running_state.hpp"

namespace ferrite::emitter {

struct BlockScanPlan {
  std::vector<loop::RunningState> states;  ///< by carried value
  int64_t points = 1;                      ///< rows; each is a block
  int64_t extent = 0;                      ///< trip count of the serial loop
  unsigned lanes = 1;                      ///< adjacent elements per thread; they divide the extent
  unsigned threads = 1;
};

/// Returns the plan, or nullopt if the kernel has another form, or has enough rows for one thread per row
/// with coalesced reads.
std::optional<BlockScanPlan> plan_block_scan(const Target& target, loop::Kernel& kernel);

/// Emits the kernel at the builder's insert point.
void emit_block_scan(KernelContext& context, ThreadBlock& block, const BlockScanPlan& plan);

}  // namespace ferrite::emitter
