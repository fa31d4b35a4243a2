// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <llvm/IR/Function.h>
#include <llvm/IR/IRBuilder.h>

#include <cstdint>
#include <vector>

namespace ferrite::emitter {

class KernelContext;

/// A loop around the steps of k: so many turns, each this far in the rows; columns go on where they are.
struct MicroLoop {
  int64_t turns = 1, row_step = 0;
};

/// One register block of a contraction: tile[r][c] = sum over k of rows[r, k] * columns[k, c], accumulated in
/// registers; channelwise the rows are rows[r, k, c]. Strides and steps are in elements and known when the kernel is
/// emitted, so that rows are reached by displacements from one moving pointer.
struct MicroShape {
  int rows = 1;                  ///< rows of the block
  int vectors = 1;               ///< vectors of columns
  int lanes = 1;                 ///< elements of a vector
  int tail_lanes = 0;            ///< > 0: only this many lanes of the last vector may be read
  std::vector<MicroLoop> loops;  ///< around the innermost k, the outermost first
  bool counted = false;          ///< the turns of the outermost loop, one or more, are an argument
  int64_t depth = 0;             ///< extent of the innermost k
  bool fused = true;             ///< the target has a fused multiply-add
  bool memory_operands = false;  ///< arithmetic takes an operand from memory
  bool channelwise = false;
  bool accumulate = false;  ///< the tile has sums already, to which the products are added
  llvm::Type* accumulator = nullptr;
  llvm::Type* row_type = nullptr;        ///< as stored: f16, f32, f64, or i16 for bf16
  int64_t row_stride = 0, row_step = 0;  ///< from row to row, from k to k + 1
  llvm::Type* column_type = nullptr;
  int64_t column_step = 0;    ///< from k to k + 1; columns of one k are contiguous
  int64_t column_stride = 1;  ///< from column to column; of dot products alone more than 1
  int dots = 1;               ///< columns that a dot kernel takes at once
  /// > 0: what is asked for lies so many steps of k later; of dot products, that many elements along k.
  int64_t ahead = 0;
  bool asks = false;        ///< how far what is asked for lies from each step's columns is an argument
  int64_t asked_lines = 1;  ///< that are asked for at each step, of matrix tiles at each tile of the depth
  int64_t tile_stride = 0;  ///< from row to row of the tile, in accumulators
};

/// A loaded scalar or vector as `accumulator`, f32 or f64, without loss. i16 holds bf16.
llvm::Value* widen_float(llvm::IRBuilder<>& builder, llvm::Value* value, llvm::Type* accumulator);

/// a * b + sum, in one rounding where the target has that.
llvm::Value* multiply_add(llvm::IRBuilder<>& builder, const MicroShape& shape, llvm::Value* a, llvm::Value* b,
                          llvm::Value* sum);

/// Where a micro-kernel begins to read; how many turns its outermost loop takes where that is counted, else null; bytes from the columns of
/// each step to what it asks for, where it does, else null.
struct MicroStart {
  llvm::Value *rows = nullptr, *columns = nullptr, *turns = nullptr, *asked = nullptr;
};

/// Adds the products to the sums of a register block, row by row, where the builder stands in `function`; it ends behind them.
void add_products(llvm::IRBuilder<>& builder, llvm::Function* function, const MicroShape& shape,
                  const MicroStart& start, std::vector<llvm::Value*>& sums);

/// Zeros for the sums of a register block.
std::vector<llvm::Value*> zero_sums(const MicroShape& shape);

/// Those of a kernel's own function, which its internal ones have too.
llvm::AttributeList micro_attributes(const KernelContext& context);

/// An internal function without a body yet, which is not inlined: the register allocator sees its loops alone.
llvm::Function* micro_function(llvm::Module& module, const llvm::Twine& name, llvm::FunctionType* type,
                               const llvm::AttributeList& attributes);

/// `void (ptr rows, ptr columns, ptr tile)`, behind them i64: the turns where they are `counted`, and where it `asks` what MicroStart has.
llvm::FunctionType* micro_type(llvm::LLVMContext& context, bool counted, bool asks);
/// `internal`, of the type for such a shape, without a body yet.
llvm::Function* micro_function(llvm::Module& module, const llvm::Twine& name, const MicroShape& shape,
                               const llvm::AttributeList& attributes);

/// Emits a micro_function. The tile is aligned to its vectors.
llvm::Function* emit_micro_kernel(llvm::Module& module, const llvm::Twine& name, const MicroShape& shape,
                                  const llvm::AttributeList& attributes);

/// `void (ptr rows, ptr columns, ptr tile, i64 turns)`: one register block after the other, so many, each shape.vectors further to the
/// right than the one before; the elements of the rows, rows * depth, stay in registers. Adds to the sums of the tile.
llvm::Function* emit_run_kernel(llvm::Module& module, const llvm::Twine& name, const MicroShape& shape,
                                const llvm::AttributeList& attributes);

/// The same as a micro-kernel with vectors along k, where rows and columns are contiguous along it: one vector of columns, each a dot product.
llvm::Function* emit_dot_kernel(llvm::Module& module, const llvm::Twine& name, const MicroShape& shape,
                                const llvm::AttributeList& attributes);

/// Of one matrix tile: 16 rows of 64 bytes, which are 32 elements of bf16 or 16 sums.
constexpr int matrix_tile_rows = 16, matrix_tile_bytes = 64, matrix_tile_depth = 32;

/// The same of bf16 rows and columns with matrix tiles (AMX): at most two tiles of rows and two of columns, a depth of whole tiles and at
/// most one loop around it. Rows are contiguous along k. Of a panel two steps of k lie side by side for each column: column_step is that of one of them.
llvm::Function* emit_tile_kernel(llvm::Module& module, const llvm::Twine& name, const MicroShape& shape,
                                 const llvm::AttributeList& attributes);

}  // namespace ferrite::emitter
