// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <llvm/IR/Function.h>
#include <llvm/IR/IRBuilder.h>

#include <cstdint>
#include <vector>

namespace ferrite::emitter {

class KernelContext;

/// A loop around the innermost depth loop: its trip count, and its step in the rows. The column pointer
/// simply continues.
struct MicroLoop {
  int64_t trips = 1, row_step = 0;
};

/// One register block of a contraction: tile[r][c] = sum over k of rows[r, k] * columns[k, c], accumulated in
/// registers; channelwise the rows are rows[r, k, c]. Strides and steps are in elements and known when the
/// kernel is emitted, so that rows are reached by displacements from one moving pointer.
struct MicroShape {
  int rows = 1;                  ///< rows of the register block
  int vectors = 1;               ///< vectors of columns
  int lanes = 1;                 ///< elements of a vector
  int tail_lanes = 0;            ///< > 0: only this many lanes of the last vector may be read
  std::vector<MicroLoop> loops;  ///< around the innermost k, the outermost first
  bool counted = false;          ///< the trip count of the outermost loop, at least one, is an argument
  int64_t depth = 0;             ///< extent of the innermost k
  bool fused = true;             ///< the target has a fused multiply-add
  bool memory_operands = false;  ///< arithmetic instructions take an operand from memory
  bool channelwise = false;
  bool accumulate = false;  ///< the tile holds sums already, and the products are added to them
  llvm::Type* accumulator = nullptr;
  llvm::Type* row_type = nullptr;        ///< type in memory: f16, f32, f64, or i16 for bf16
  int64_t row_stride = 0, row_step = 0;  ///< from row to row, from k to k + 1
  llvm::Type* column_type = nullptr;
  int64_t column_step = 0;    ///< from k to k + 1; columns of one k are contiguous
  int64_t column_stride = 1;  ///< from column to column; more than 1 for dot products only
  int dots = 1;               ///< columns that a dot-product kernel computes in parallel
  /// Prefetch distance if > 0: in depth steps, or in elements along k for dot products.
  int64_t ahead = 0;
  bool prefetches = false;       ///< the prefetch distance from each step's columns is an argument
  int64_t prefetched_lines = 1;  ///< lines prefetched per step of k, or per AMX register of the depth
  int64_t tile_stride = 0;       ///< from row to row of the tile, in accumulators
};

/// Converts a loaded scalar or vector to `accumulator`, f32 or f64, without loss. i16 holds bf16.
llvm::Value* widen_float(llvm::IRBuilder<>& builder, llvm::Value* value, llvm::Type* accumulator);

/// a * b + sum, rounded once if the target has a fused multiply-add.
llvm::Value* multiply_add(llvm::IRBuilder<>& builder, const MicroShape& shape, llvm::Value* a, llvm::Value* b,
                          llvm::Value* sum);

/// Where a micro-kernel starts reading. `trips`: the trip count of the outermost loop if it is counted, else
/// null. `prefetch_distance`: bytes from each step's columns to the prefetched line if there are any, else
/// null.
struct MicroStart {
  llvm::Value *rows = nullptr, *columns = nullptr, *trips = nullptr, *prefetch_distance = nullptr;
};

/// Adds the products to the sums of a register block, row by row, at the builder's insert point in
/// `function`. The builder ends after them.
void add_products(llvm::IRBuilder<>& builder, llvm::Function* function, const MicroShape& shape,
                  const MicroStart& start, std::vector<llvm::Value*>& sums);

/// Zeros, one for each sum of a register block.
std::vector<llvm::Value*> zero_sums(const MicroShape& shape);

/// The attributes of the kernel's entry function, which its internal functions share.
llvm::AttributeList micro_attributes(const KernelContext& context);

/// An internal function without a body. It is not inlined, so the register allocator sees the micro-kernel's
/// loops alone.
llvm::Function* micro_function(llvm::Module& module, const llvm::Twine& name, llvm::FunctionType* type,
                               const llvm::AttributeList& attributes);

/// `void (ptr rows, ptr columns, ptr tile)`, followed by i64 arguments: the trip count if `counted`, and the
/// prefetch distance if `prefetches` (see MicroStart).
llvm::FunctionType* micro_type(llvm::LLVMContext& context, bool counted, bool prefetches);
/// An internal function of the type for this shape, without a body.
llvm::Function* micro_function(llvm::Module& module, const llvm::Twine& name, const MicroShape& shape,
                               const llvm::AttributeList& attributes);

/// Emits the body of a micro_function. The tile is aligned to its vectors.
llvm::Function* emit_micro_kernel(llvm::Module& module, const llvm::Twine& name, const MicroShape& shape,
                                  const llvm::AttributeList& attributes);

/// `void (ptr rows, ptr columns, ptr tile, i64 trips)`: computes `trips` register blocks, each shape.vectors
/// to the right of the previous one. The rows * depth elements of the row operand stay in registers. Adds to
/// the sums in the tile.
llvm::Function* emit_few_rows_kernel(llvm::Module& module, const llvm::Twine& name, const MicroShape& shape,
                                     const llvm::AttributeList& attributes);

/// A micro-kernel with vectors along k. Rows and columns are contiguous along k; each column is a dot
/// product, and there is one vector of columns.
llvm::Function* emit_dot_kernel(llvm::Module& module, const llvm::Twine& name, const MicroShape& shape,
                                const llvm::AttributeList& attributes);

/// A micro-kernel for bf16 on AMX registers: at most two registers of rows and two of columns, a depth
/// of whole registers, and at most one loop around it. Rows are contiguous along k. A panel interleaves two
/// steps of k for each column; column_step counts one of them.
llvm::Function* emit_amx_kernel(llvm::Module& module, const llvm::Twine& name, const MicroShape& shape,
                                const llvm::AttributeList& attributes);

}  // namespace ferrite::emitter
