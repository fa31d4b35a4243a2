// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Running sums on a grid: a serial loop that carries values from step to step, each of which the next step combines with a value of its
// own by an associative operation. A block goes over a row in pieces, of which each thread has some neighbours; threads combine their
// pieces as a hypercube does (Hillis and Steele, "Data parallel algorithms", 1986, is the same over shared memory alone).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "backends/llvm/gpu/nest/thread_block.h"
#include "ferrite/analysis/running_state.hpp"

namespace ferrite::emitter {

struct BlockScanPlan {
  std::vector<loop::RunningState> states;  ///< by carry
  int64_t points = 1;                      ///< rows, a block each
  int64_t extent = 0;                      ///< of the serial loop
  unsigned lanes = 1;                      ///< neighbours of a thread; the extent is a multiple of them
  unsigned threads = 1;
};

/// The plan, or nothing where the kernel is none such, or has so many rows that a thread each reads neighbours beside its neighbours.
std::optional<BlockScanPlan> plan_grid_scan(const Target& target, loop::Kernel& kernel);

/// Emits the kernel at the builder's insert point.
void emit_grid_scan(KernelContext& context, ThreadBlock& block, const BlockScanPlan& plan);

}  // namespace ferrite::emitter
