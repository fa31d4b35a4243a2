// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A product, the softmax of its rows and the product with that on a grid, as attention has them: a block has a tile of rows and goes over
// the columns piece by piece. Scores stay in the registers that the matrix instruction leaves them in, which are those that it wants
// the weights in; each piece corrects what was summed before by how much larger the row's most has become. The scheme is that of
// Milakov and Gimelshein ("Online normalizer calculation for softmax", 2018) and Dao ("FlashAttention-2", 2023).
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "backends/llvm/gpu/nest/thread_block.h"
#include "ferrite/analysis/softmax_products.hpp"

namespace ferrite::emitter {

struct GpuAttentionPlan {
  loop::SoftmaxProducts products;
  const GpuMachine::Matrix* matrix = nullptr;  ///< the target's
  int64_t warps = 4;
  int64_t fragments = 1;  ///< of rows that a warp has
  int64_t columns = 64;   ///< of a piece
  int64_t batch = 1, row_tiles = 1;

  int64_t tile_rows() const { return warps * fragments * matrix->rows; }
  int64_t blocks() const { return batch * row_tiles; }
  unsigned threads(const GpuMachine& machine) const { return static_cast<unsigned>(warps) * machine.warp; }
};

/// Whether the machine has what such kernels need, for f16 and bf16.
bool has_grid_softmax(const GpuMachine& machine);

/// The plan, or nothing where the kernel is none of that shape, or of a type for which the machine has no fitting instruction.
std::optional<GpuAttentionPlan> plan_grid_softmax(const Target& target, loop::Kernel& kernel);

/// Estimated, of the whole grid.
double grid_softmax_seconds(const Target& target, const GpuAttentionPlan& plan);

/// Emits the kernel at the builder's insert point.
void emit_grid_softmax(KernelContext& context, ThreadBlock& block, const GpuAttentionPlan& plan);

}  // namespace ferrite::emitter
