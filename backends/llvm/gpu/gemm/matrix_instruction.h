// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The machine's matrix instruction: which elements each lane of a warp holds, how they are loaded from shared
// memory, and the call of the instruction.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "backends/llvm/gpu/nest/thread_block.h"

namespace ferrite::emitter {

/// An operand tile in shared memory: `across` (rows or columns of the product) by depth.
struct SharedTile {
  llvm::Type* element = nullptr;
  bool lines_along_depth = true;  ///< neighbouring elements lie along the depth, else across it
  int64_t line = 0;               ///< elements from one line to the next
  llvm::Value* memory = nullptr;  ///< address of element (0, 0)

  /// Element offset of (across, depth) from (0, 0).
  int64_t offset(int64_t across, int64_t depth) const {
    return lines_along_depth ? across * line + depth : depth * line + across;
  }
  llvm::Value* at(llvm::IRBuilder<>& builder, llvm::Value* across, llvm::Value* depth) const;
};

class MatrixInstruction {
 public:
  using Operands = std::vector<llvm::Value*>;

  /// Keeps references. The builder must stand where all threads of the block pass.
  MatrixInstruction(KernelContext& context, ThreadBlock& block, const GpuMachine::Matrix& machine);

  int64_t rows() const { return machine_.rows; }
  int64_t columns() const { return machine_.columns; }
  int64_t depth() const { return machine_.depth; }
  llvm::Value* warp() const { return warp_; }  ///< i64, number of the thread's warp in the block
  size_t sums() const { return machine_.sums.elements.size(); }  ///< sums per lane

  /// The lane's operands of `count` adjacent instructions, for the rows or columns from `first` (i64) on and
  /// the depth from `depth` on.
  std::vector<Operands> row_operands(const SharedTile& tile, llvm::Value* first, int64_t depth,
                                     int64_t count) {
    return operands(tile, machine_.row, machine_.rows, first, depth, count);
  }
  std::vector<Operands> column_operands(const SharedTile& tile, llvm::Value* first, int64_t depth,
                                        int64_t count) {
    return operands(tile, machine_.column, machine_.columns, first, depth, count);
  }
  /// Adds the product to the lane's sums; each sum is in a stack slot that becomes a register.
  void multiply(std::span<llvm::Value* const> row, std::span<llvm::Value* const> column,
                std::span<llvm::AllocaInst* const> sums);
  /// Row and column (i64) of one of the lane's sums.
  std::pair<llvm::Value*, llvm::Value*> place_of_sum(size_t number);
  /// The number of sums from this one on that are adjacent in a row and start at a multiple of their number:
  /// 1, 2 or 4.
  size_t sums_together(size_t number) const;

 private:
  using Fragment = GpuMachine::Matrix::Fragment;

  std::pair<llvm::Value*, llvm::Value*> place_of_lane(const Fragment& fragment);
  std::vector<Operands> operands(const SharedTile& tile, const Fragment& layout, int64_t lines,
                                 llvm::Value* first, int64_t depth, int64_t count);
  std::vector<Operands> load_squares(const SharedTile& tile, const Fragment& layout, int64_t lines,
                                     llvm::Value* first, int64_t depth, int64_t count, llvm::Type* type);

  KernelContext& context_;
  llvm::IRBuilder<>& builder_;
  ThreadBlock& block_;
  const GpuMachine::Matrix& machine_;
  llvm::Value *lane_, *warp_;
};

}  // namespace ferrite::emitter
