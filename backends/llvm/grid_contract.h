// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A contraction on a grid: a block makes a tile of the results. It brings pieces of both operands into shared memory, step by step of
// the depth, the next piece on its way while the threads multiply this one; the sums go through shared memory to the epilogue, so that
// neighbouring threads write neighbouring results. The scheme is that of Volkov and Demmel ("Benchmarking GPUs to tune dense linear
// algebra", 2008).
#pragma once

#include <cstdint>
#include <optional>

#include "contract_plan.h"
#include "grid_block.h"

namespace ferrite::emitter {

struct GridContractPlan {
  ContractPlan contract;
  /// What of an operand lies in shared memory: its value before it was widened.
  struct Side {
    loop::OpId value = loop::none;
    DType dtype = DType::none;
    bool depth_inside = true;  ///< it is contiguous along the depth
    int64_t lanes = 1;         ///< elements that a thread reads at once, along the depth or across
  };
  Side row, column;
  bool matrix = false;  ///< by the machine's matrix instruction
  int64_t tile_rows = 0, tile_columns = 0, tile_depth = 0;
  int64_t row_tiles = 0, column_tiles = 0;

  int64_t blocks() const { return contract.batch.extent * row_tiles * column_tiles; }
};

/// Threads of a block, whatever the tile.
inline constexpr unsigned grid_contract_threads = 256;

/// The plan, or nothing where the kernel is no contraction of floats whose rows and columns are worth a tile. Turns the kernel's strided
/// buffers into one-dimensional ones.
std::optional<GridContractPlan> plan_grid_contract(const Target& target, loop::Kernel& kernel);

/// Emits the kernel at the builder's insert point.
void emit_grid_contract(KernelContext& context, GridBlock& block, const GridContractPlan& plan);

}  // namespace ferrite::emitter
