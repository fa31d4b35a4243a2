// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernels of products around matrices that some of them sum over the rows
// (ferrite/analysis/accumulated_products.hpp), as the gradient of attention, in blocks of rows. A task takes
// one point of the shared loops and walks over the blocks of rows: the products that work row by row make the
// block's part of each matrix and consume it, and the products that sum over the rows add the block's part to
// sums that they keep until the last block. After Dao, "FlashAttention-2" (2023), with the loop over queries
// outside.
//
// Where a matrix is zero above a diagonal, as with a causal mask, its blocks above the diagonal are left out.
#pragma once

#include <optional>
#include <vector>

#include "backends/llvm/gemm/plan.h"
#include "ferrite/emitter/kernel_context.h"
#include "ferrite/emitter/kernel_emitter.h"

namespace ferrite::emitter {

/// The plan's kernel has one more shared loop: the rows or, for a product that sums over them, the rows of
/// its result.
struct AccumulatedBlocks {
  enum class Role {
    map,         ///< runs row by row
    makes,       ///< a product that makes rows of a matrix
    consumes,    ///< a product that multiplies rows of a matrix
    accumulates  ///< a product that sums over the rows of a matrix
  };
  std::vector<Role> roles;                         ///< by statement
  std::vector<std::optional<GemmPlan>> contracts;  ///< by statement; nullopt: a map
  /// By buffer: elements from one row of a matrix to the next; 0: the buffer is no matrix.
  std::vector<int64_t> kept;
  int64_t extent = 0;  ///< rows of a matrix
  int64_t rows = 1;    ///< rows of a block
  /// Element (row, column) of every matrix is zero where column > row + *diagonal.
  std::optional<int64_t> diagonal;
  int64_t columns = 0;  ///< with a diagonal: of every matrix
  /// With a diagonal: the columns up to it are rounded up to a multiple of `unit` where rows of a matrix are
  /// made and multiplied, and of `sum_unit` where its rows are summed.
  int64_t unit = 1, sum_unit = 1;
};

/// Returns nullopt if the kernel does not have this form, or one of its products has no plan. Otherwise the
/// kernel's strided buffers become one-dimensional, and its LOCAL buffers get room for one block.
std::optional<AccumulatedBlocks> plan_accumulated_blocks(const Target& target, loop::Kernel& kernel);

/// The context's kernel must be the one that was planned.
void emit_accumulated_blocks(KernelContext& context, const AccumulatedBlocks& plan, EmitResult& result);

/// Estimates the cycles of all tasks on one core.
double accumulated_block_cycles(const Target& target, loop::Kernel& kernel, const AccumulatedBlocks& plan);

}  // namespace ferrite::emitter
