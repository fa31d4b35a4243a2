// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The micro-kernels of a planned contraction: for whole register blocks, and for those at the edges of rows, columns and depth.
#pragma once

#include "backends/llvm/cpu/gemm/micro.h"
#include "backends/llvm/cpu/gemm/plan.h"

namespace ferrite::emitter {

class ContractFinish;

class ContractMicroKernels {
 public:
  /// Emits them. Keeps references. In elements: `row_row` from one outer coordinate of a packed block of rows to the next, `column_step`
  /// of the columns from k to k + 1, `tile_stride` from one row of the sums to the next.
  ContractMicroKernels(KernelContext& context, const ContractPlan& plan, ContractFinish& finish,
                       int64_t row_row, int64_t column_step, int64_t tile_stride);

  /// The one for the block at (row, column) and the pass from `depth_from` on, chosen by what is left.
  llvm::Value* at(llvm::Value* row, llvm::Value* column, llvm::Value* depth_from);

 private:
  using MicroKernels = llvm::Function* [2][2];  // [last rows][last columns]

  void make(MicroKernels& micro_kernels, int64_t depth);
  void walk_window(MicroShape& shape) const;

  KernelContext& context_;
  llvm::IRBuilder<>& builder_;
  const ContractPlan& plan_;
  ContractFinish& finish_;
  int64_t row_row_, column_step_, tile_stride_;
  MicroKernels micro_[2] = {};  // of a whole pass over the depth, and of what is left for the last
};

}  // namespace ferrite::emitter
