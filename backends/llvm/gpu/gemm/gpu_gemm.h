// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// GEMM on a GPU. Each block computes one tile of the results. Step by step along the depth, it loads tiles of
// both operands into shared memory, and later tiles are in flight while the threads multiply the current
// ones. The sums pass through shared memory to the epilogue, so that neighbouring threads write neighbouring
// results. The scheme is that of Volkov and Demmel ("Benchmarking GPUs to tune dense linear algebra", 2008).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backends/llvm/gemm/plan.h"
#include "backends/llvm/gpu/nest/thread_block.h"
#include "ferrite/emitter/gpu_kernel.h"

namespace ferrite::emitter {

/// The tile sizes of a contraction.
struct GpuGemmTile {
  int64_t rows = 0, columns = 0, depth = 0;  ///< size of one step of a block
  /// Warps per tile with a matrix instruction, else threads per tile.
  int64_t thread_rows = 0, thread_columns = 0;
  int64_t stages = 2;  ///< steps whose operand tiles are in shared memory at the same time
  int64_t splits = 1;  ///< split-K: blocks of one cluster that divide the depth of a tile

  uint64_t id() const;
  static GpuGemmTile of(uint64_t id);
  std::string name() const;  ///< "128x256x64.2x4.s3"; with several splits "64x64x64.2x2.s4.k2"
};

struct GpuGemmPlan {
  GemmPlan contract;
  /// The form of an operand in shared memory: its value before it was widened.
  struct Side {
    loop::OpId value = loop::none;
    DType dtype = DType::none;
    bool depth_inside = true;        ///< the operand is contiguous along the depth
    int64_t lanes = 1;               ///< elements per access of a thread, along the depth or across it
    bool copied = false;             ///< the machine's asynchronous copies load it unchanged
    bool even = false;               ///< evenly spaced along the depth and across it, without a mask
    bool lines_along_depth = false;  ///< lines in shared memory run along the depth
    int64_t bytes = 0;               ///< bytes of an element in shared memory
    int64_t operations = 0;          ///< operations between the loads and an element
  };
  Side row, column;
  /// one of the target's; null: multiply-adds without a matrix instruction
  const GpuMachine::Matrix* matrix = nullptr;
  GpuGemmTile tile;
  unsigned threads = 0;
  int64_t resident = 1;  ///< blocks that a multiprocessor runs concurrently
  int64_t row_tiles = 0, column_tiles = 0;

  int64_t blocks() const { return contract.batch.extent * row_tiles * column_tiles * tile.splits; }
  int64_t steps() const;           ///< steps of the whole depth
  int64_t steps_of_block() const;  ///< steps of one block, with split-K
  /// Elements of a line of shared memory, padded so that lines start in different banks; bytes of an operand
  /// tile.
  int64_t line(const Side& side) const;
  int64_t tile_bytes(const Side& side) const;
  int64_t stage_bytes() const { return tile_bytes(row) + tile_bytes(column); }
  int64_t sums_line() const;     ///< elements from row to row of the sums in shared memory
  int64_t shared_bytes() const;  ///< shared memory of a block
};

/// Returns the plan, or nullopt if the kernel is no contraction of floats with enough rows and columns for a
/// tile. `tile`: the id of one of gpu_gemm_options(), or 0 for the fastest by the cost model. Makes all
/// buffers of the kernel one-dimensional, packed ones included.
std::optional<GpuGemmPlan> plan_gpu_gemm(const Target& target, loop::Kernel& kernel, uint64_t tile);

/// The possible tiles of the kernel with the cost model's times and the layouts that they request for
/// constants; the fastest comes first. Empty if there is no plan.
std::vector<GpuOption> gpu_gemm_options(const Target& target, const loop::Kernel& kernel);

/// Emits the kernel at the builder's insert point.
void emit_gpu_gemm(KernelContext& context, ThreadBlock& block, const GpuGemmPlan& plan);

}  // namespace ferrite::emitter
