// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Columns or values of a softmax between two products on their way to shared memory, piece by piece.
#pragma once

#include <vector>

#include "backends/llvm/gpu/attention/gpu_attention.h"
#include "backends/llvm/gpu/gemm/matrix_instruction.h"

namespace ferrite::emitter {

/// Two pieces, one of which is brought while the other is used: by the machine's copies where it has some, else through registers.
class KeyValueTiles {
 public:
  struct Loops {
    loop::Var column, other;       ///< the columns of the scores, the features of one
    bool column_is_depth = false;  ///< of the product that takes the pieces
  };
  /// Keeps references. `first`: the number of the operand's element where both loops begin.
  KeyValueTiles(KernelContext& context, ThreadBlock& block, const GpuAttentionPlan& plan,
                const loop::SoftmaxProducts::Operand& operand, const Loops& loops, llvm::Value* first);

  bool copies() const { return copy_ != nullptr; }
  /// Makes all elements of both zeros.
  void clear();
  /// Asks for the piece from this column on, zeros behind the last one, for the buffer of that number (both i64): copies are on their way
  /// there then, else it is in registers.
  void bring(llvm::Value* column, llvm::Value* buffer);
  /// Puts what is in registers into the buffer.
  void write(llvm::Value* buffer);
  SharedPiece piece(llvm::Value* buffer) const;

 private:
  KernelContext& context_;
  llvm::IRBuilder<>& builder_;
  ThreadBlock& block_;
  const GpuAttentionPlan& plan_;
  const loop::SoftmaxProducts::Operand& operand_;
  const GpuMachine::Copy* copy_;
  llvm::Type* element_;
  bool
      lines_are_columns_;  ///< of shared memory: each is a column of the scores, else a feature of all columns
  int64_t lines_ = 0, elements_ = 0;  ///< of a line, that are read
  int64_t line_ = 0, buffer_ = 0;     ///< elements from one to the next
  int64_t step_ = 0;                  ///< from line to line, in global memory
  llvm::Value *memory_ = nullptr, *first_ = nullptr;
  std::vector<llvm::Value*> places_, values_;  ///< of the thread's parts: in shared memory, what was read
};

}  // namespace ferrite::emitter
