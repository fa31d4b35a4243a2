// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Loads the key or value tiles of a softmax between two products into shared memory.
#pragma once

#include <vector>

#include "backends/llvm/gpu/attention/gpu_attention.h"
#include "backends/llvm/gpu/gemm/matrix_instruction.h"

namespace ferrite::emitter {

/// Two buffers in shared memory, for double buffering: one tile is loaded while the other is in use. Loads
/// use the machine's asynchronous copies if it has them, else registers.
class KeyValueTiles {
 public:
  struct Loops {
    loop::Var column, other;       ///< the score column, and the feature of one column
    bool column_is_depth = false;  ///< `column` is the depth of the product that reads the tiles
  };
  /// Keeps references. `first`: the operand's element number where both loops begin.
  KeyValueTiles(KernelContext& context, ThreadBlock& block, const GpuAttentionPlan& plan,
                const loop::SoftmaxProducts::Operand& operand, const Loops& loops, llvm::Value* first);

  bool copies() const { return copy_ != nullptr; }
  /// Clears both buffers to zeros.
  void clear();
  /// Starts loading the tile from this column on into the buffer of that number (both i64); columns past the
  /// last one are zeros. Afterwards the asynchronous copies are in flight, or the tile is in registers.
  void load_async(llvm::Value* column, llvm::Value* buffer);
  /// Writes the tile from registers to the buffer.
  void write(llvm::Value* buffer);
  SharedTile tile(llvm::Value* buffer) const;

 private:
  KernelContext& context_;
  llvm::IRBuilder<>& builder_;
  ThreadBlock& block_;
  const GpuAttentionPlan& plan_;
  const loop::SoftmaxProducts::Operand& operand_;
  const GpuMachine::Copy* copy_;
  llvm::Type* element_;
  bool
      /// of shared memory: each is a column of the scores, else a feature of all columns
      lines_are_columns_;
  int64_t lines_ = 0, elements_ = 0;  ///< elements of a line that are read
  int64_t line_ = 0, buffer_ = 0;     ///< elements from one line, or one buffer, to the next
  int64_t step_ = 0;                  ///< elements from line to line in global memory
  llvm::Value *memory_ = nullptr, *first_ = nullptr;
  /// By part of the thread: address in shared memory, and loaded elements.
  std::vector<llvm::Value*> places_, values_;
};

}  // namespace ferrite::emitter
