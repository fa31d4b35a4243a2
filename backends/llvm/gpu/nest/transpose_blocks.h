// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Maps that read along one loop and write along another, such as transpositions. A block covers a square of
// both loops. It loads the transposed operands into shared memory along their own lines and reads them from
// there along the other loop.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "backends/llvm/gpu/nest/thread_block.h"
#include "ferrite/loop.hpp"

namespace ferrite::emitter {

struct TransposeBlocksPlan {
  size_t along = 0;                    ///< number of the loop whose neighbours are written adjacently
  size_t across = 0;                   ///< number of the loop whose neighbours are read adjacently
  int64_t lanes = 1;                   ///< adjacent elements per access of a thread, in both directions
  std::vector<loop::OpId> transposed;  ///< the loads that are read along `across`
  int64_t blocks = 0;
};

inline constexpr unsigned transpose_block_threads = 256;

/// Returns nullopt if the kernel is no such map.
std::optional<TransposeBlocksPlan> plan_transpose_blocks(loop::Kernel& kernel);

/// Emits the kernel at the builder's insert point.
void emit_transpose_blocks(KernelContext& context, ThreadBlock& block, const TransposeBlocksPlan& plan);

}  // namespace ferrite::emitter
