// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Products of matrices that are products themselves, as in the gradient of attention, on a GPU. A block owns
// a tile of the kept dim and iterates over tiles of the walked one. The matrices between the products stay in
// registers: the matrix instruction leaves them in the fragment layout in which the second products read
// their weights. The scheme is that of Dao ("FlashAttention-2", 2023) without sums in memory: each block owns
// its results.
#pragma once

#include <cstdint>
#include <optional>

#include "backends/llvm/gpu/nest/thread_block.h"
#include "ferrite/analysis/tiled_products.hpp"

namespace ferrite::emitter {

struct GpuTiledProductsPlan {
  loop::TiledProducts products;
  const GpuMachine::Matrix* matrix = nullptr;  ///< one of the target's matrix instructions
  int64_t warps = 4;
  int64_t fragments = 1;  ///< row fragments per warp
  int64_t walked = 64;    ///< extent of a tile along the walked dim
  int64_t batch = 1, tiles = 1;

  int64_t tile_rows() const { return warps * fragments * matrix->rows; }
  int64_t blocks() const { return batch * tiles; }
  unsigned threads(const GpuMachine& machine) const { return static_cast<unsigned>(warps) * machine.warp; }
};

/// Returns the plan, or nullopt if the kernel has another form or a type without a suitable matrix
/// instruction.
std::optional<GpuTiledProductsPlan> plan_gpu_tiled_products(const Target& target, loop::Kernel& kernel);

/// Estimated seconds of the whole grid.
double gpu_tiled_products_seconds(const Target& target, const GpuTiledProductsPlan& plan);

/// Emits the kernel at the builder's insert point.
void emit_gpu_tiled_products(KernelContext& context, ThreadBlock& block, const GpuTiledProductsPlan& plan);

}  // namespace ferrite::emitter
