// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Maps that read along one loop what they write along another one, such as transpositions: a block has a square of both loops, brings what
// is transposed into shared memory along its own lines and takes it from there along the others.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "backends/llvm/gpu/nest/thread_block.h"
#include "ferrite/loop.hpp"

namespace ferrite::emitter {

struct TransposeTilesPlan {
  size_t along = 0;                    ///< the loop whose neighbours are written side by side, by its number
  size_t across = 0;                   ///< the one whose neighbours are read side by side
  int64_t lanes = 1;                   ///< neighbours that a thread takes at once, both ways
  std::vector<loop::OpId> transposed;  ///< the loads that are read along `across`
  int64_t blocks = 0;
};

inline constexpr unsigned grid_tiles_threads = 256;

/// Nothing where the kernel is no such map.
std::optional<TransposeTilesPlan> plan_grid_tiles(loop::Kernel& kernel);

/// Emits the kernel at the builder's insert point.
void emit_grid_tiles(KernelContext& context, ThreadBlock& block, const TransposeTilesPlan& plan);

}  // namespace ferrite::emitter
