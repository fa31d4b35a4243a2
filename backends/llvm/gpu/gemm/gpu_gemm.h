// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A contraction on a grid: a block makes a tile of the results. It brings pieces of both operands into shared memory, step by step of
// the depth, the next ones on their way while the threads multiply this one; the sums go through shared memory to the epilogue, so that
// neighbouring threads write neighbouring results. The scheme is that of Volkov and Demmel ("Benchmarking GPUs to tune dense linear
// algebra", 2008).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backends/llvm/cpu/gemm/plan.h"
#include "backends/llvm/gpu/nest/thread_block.h"
#include "ferrite/emitter/gpu_kernel.h"

namespace ferrite::emitter {

/// How a contraction is cut up.
struct GpuGemmTile {
  int64_t rows = 0, columns = 0, depth = 0;  ///< of a block's step
  int64_t thread_rows = 0,
          thread_columns = 0;  ///< warps that share the tile with a matrix instruction, else threads
  int64_t stages = 2;          ///< steps whose pieces are in shared memory at once
  int64_t splits = 1;          ///< blocks, of one cluster, that share the depth of a tile

  uint64_t id() const;
  static GpuGemmTile of(uint64_t id);
  std::string name() const;  ///< "128x256x64.2x4.s3", of several splits "64x64x64.2x2.s4.k2"
};

struct GpuGemmPlan {
  ContractPlan contract;
  /// What of an operand lies in shared memory: its value before it was widened.
  struct Side {
    loop::OpId value = loop::none;
    DType dtype = DType::none;
    bool depth_inside = true;        ///< it is contiguous along the depth
    int64_t lanes = 1;               ///< elements that a thread brings at once, along the depth or across
    bool copied = false;             ///< as they are, by the machine's copies
    bool even = false;               ///< evenly spaced along the depth and across, and without a mask
    bool lines_along_depth = false;  ///< in shared memory
    int64_t bytes = 0;               ///< of an element there
    int64_t operations = 0;          ///< that make an element of what is read
  };
  Side row, column;
  const GpuMachine::Matrix* matrix = nullptr;  ///< the target's; none: one product after the other
  GpuGemmTile tile;
  unsigned threads = 0;
  int64_t resident = 1;  ///< blocks that a multiprocessor holds at once
  int64_t row_tiles = 0, column_tiles = 0;

  int64_t blocks() const { return contract.batch.extent * row_tiles * column_tiles * tile.splits; }
  int64_t steps() const;           ///< of the depth
  int64_t steps_of_block() const;  ///< the same where blocks share them
  /// Elements of a line of shared memory, some of which keep the lines' beginnings in different banks; bytes of a piece.
  int64_t line(const Side& side) const;
  int64_t piece_bytes(const Side& side) const;
  int64_t stage_bytes() const { return piece_bytes(row) + piece_bytes(column); }
  int64_t sums_line() const;     ///< elements from row to row of the sums in shared memory
  int64_t shared_bytes() const;  ///< of a block
};

/// The plan, or nothing where the kernel is no contraction of floats whose rows and columns are worth a tile. `tile`: the id of one of
/// grid_contract_options(), or 0 for the one that takes the least time. Turns the kernel's buffers into one-dimensional ones, packed ones
/// too.
std::optional<GpuGemmPlan> plan_grid_contract(const Target& target, loop::Kernel& kernel, uint64_t tile);

/// The tiles that there are for the kernel, with their times by the cost model and the layouts of constants that they want; that of least
/// time first. Empty where there is no plan.
std::vector<GpuOption> grid_contract_options(const Target& target, const loop::Kernel& kernel);

/// Emits the kernel at the builder's insert point.
void emit_grid_contract(KernelContext& context, ThreadBlock& block, const GpuGemmPlan& plan);

}  // namespace ferrite::emitter
