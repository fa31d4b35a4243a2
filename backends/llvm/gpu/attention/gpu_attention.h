// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Attention on a GPU: a product, the softmax of its rows, and the product of the softmax with a second
// matrix. A block owns a tile of rows and iterates over key/value tiles. The scores stay in registers: the
// matrix instruction leaves them in the fragment layout in which the second product reads its weights. Each
// key/value tile rescales the previous sums by the change of the row maximum. The scheme is that of Milakov
// and Gimelshein ("Online normalizer calculation for softmax", 2018) and Dao ("FlashAttention-2", 2023).
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
  const GpuMachine::Matrix* matrix = nullptr;  ///< one of the target's matrix instructions
  int64_t warps = 4;
  int64_t fragments = 1;  ///< row fragments per warp
  int64_t columns = 64;   ///< columns of a key/value tile
  int64_t batch = 1, row_tiles = 1;

  int64_t tile_rows() const { return warps * fragments * matrix->rows; }
  int64_t blocks() const { return batch * row_tiles; }
  unsigned threads(const GpuMachine& machine) const { return static_cast<unsigned>(warps) * machine.warp; }
};

/// Whether the machine has the instructions that such kernels need, for f16 and bf16.
bool has_gpu_attention(const GpuMachine& machine);

/// Returns the plan, or nullopt if the kernel has another form or a type without a suitable matrix
/// instruction.
std::optional<GpuAttentionPlan> plan_gpu_attention(const Target& target, loop::Kernel& kernel);

/// Estimated seconds of the whole grid.
double gpu_attention_seconds(const Target& target, const GpuAttentionPlan& plan);

/// Emits the kernel at the builder's insert point.
void emit_gpu_attention(KernelContext& context, ThreadBlock& block, const GpuAttentionPlan& plan);

}  // namespace ferrite::emitter
