// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The micro-kernels of a planned contraction: for full register blocks, and for those at the edges of rows,
// columns and depth.
#pragma once

#include "backends/llvm/cpu/gemm/micro.h"
#include "backends/llvm/gemm/plan.h"

namespace ferrite::emitter {

class BlockEpilogue;

class GemmMicroKernels {
 public:
  /// Emits the micro-kernels. Keeps references. Distances in elements: `row_row` from one outer coordinate of
  /// a packed row block to the next, `column_step` from the columns at k to those at k + 1, `tile_stride`
  /// from one row of sums to the next.
  GemmMicroKernels(KernelContext& context, const GemmPlan& plan, BlockEpilogue& finish, int64_t row_row,
                   int64_t column_step, int64_t tile_stride);

  /// The micro-kernel for the register block at (row, column) and the pass from `depth_from` on, selected by
  /// the remaining rows, columns and depth.
  llvm::Value* at(llvm::Value* row, llvm::Value* column, llvm::Value* depth_from);

 private:
  using MicroKernels = llvm::Function* [2][2];  // [last rows][last columns]

  void make(MicroKernels& micro_kernels, int64_t depth);
  void walk_window(MicroShape& shape) const;

  KernelContext& context_;
  llvm::IRBuilder<>& builder_;
  const GemmPlan& plan_;
  BlockEpilogue& finish_;
  int64_t row_row_, column_step_, tile_stride_;
  MicroKernels micro_[2] = {};  // for a full pass over the depth, and for a shorter last pass
};

}  // namespace ferrite::emitter
