// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Results of a matrix instruction as the rows of a lane, and as the operand of another product: between two
// products in a row, matrices stay in registers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "backends/llvm/gpu/gemm/matrix_instruction.h"
#include "backends/llvm/gpu/nest/thread_block.h"

namespace ferrite::emitter {

/// The sums of a lane that lie in one row, in column order.
struct LaneRow {
  int64_t line = 0;
  std::vector<size_t> sums;
};
std::vector<LaneRow> rows_of_lane(const GpuMachine::Matrix& matrix);

/// Whether the sums have the fragment layout of the row operand, so that each lane can use results of the
/// instruction as its operand. Adjacent lanes share a row, and each lane holds adjacent elements of it.
bool gives_what_it_takes(const GpuMachine::Matrix& matrix);

/// Sums in the stack slots of one lane: by row fragment, instruction along the columns, and sum.
class LaneSums {
 public:
  /// Keeps references. `tiles`: instructions side by side.
  LaneSums(KernelContext& context, const GpuMachine::Matrix& matrix, int64_t fragments, int64_t tiles);

  void clear();
  int64_t tiles() const { return tiles_; }
  std::span<llvm::AllocaInst* const> at(int64_t fragment, int64_t tile) const;
  /// These adjacent sums of one instruction as one vector; a scalar if there is one.
  llvm::Value* values(int64_t fragment, int64_t tile, const std::vector<size_t>& sums) const;
  void set(int64_t fragment, int64_t tile, const std::vector<size_t>& sums, llvm::Value* values);
  /// The sums, rounded to the type, as the instruction's row operand for one step of its depth.
  MatrixInstruction::Operands as_rows(int64_t fragment, int64_t step, DType dtype) const;

 private:
  KernelContext& context_;
  llvm::IRBuilder<>& builder_;
  const GpuMachine::Matrix& matrix_;
  int64_t tiles_;
  std::vector<llvm::AllocaInst*> slots_;
};

}  // namespace ferrite::emitter
