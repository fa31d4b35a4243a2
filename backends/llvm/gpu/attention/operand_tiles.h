// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Loads tiles of a product's operand into shared memory.
#pragma once

#include <vector>

#include "backends/llvm/gpu/gemm/matrix_instruction.h"
#include "backends/llvm/gpu/nest/thread_block.h"
#include "ferrite/analysis/product_operands.hpp"

namespace ferrite::emitter {

/// Buffers in shared memory for the tiles along one dim of an operand; with two of them, one tile is loaded
/// while the other is in use. Loads use the machine's asynchronous copies if it has them, else registers.
class OperandTiles {
 public:
  struct Shape {
    DType dtype = DType::none;
    loop::Var along;              ///< the dim that is divided into tiles
    loop::Var other;              ///< the operand's other dim, which each tile has as a whole
    bool along_is_depth = false;  ///< `along` is the depth of the product that reads the tiles
    int64_t extent = 0;           ///< of a tile along the divided dim
    int64_t whole = 1;            ///< both extents are rounded up to multiples of it
    int64_t buffers = 2;
    int64_t threads = 0;  ///< of the block
  };
  /// Keeps references. `first`: the operand's element number where both loops begin.
  OperandTiles(KernelContext& context, ThreadBlock& block, const loop::ProductOperand& operand,
               const Shape& shape, llvm::Value* first);

  bool copies() const { return copy_ != nullptr; }
  /// Clears all buffers to zeros.
  void clear();
  /// Starts loading the tile from this place on into the buffer of that number (both i64); what lies past the
  /// last element is zeros. Afterwards the asynchronous copies are in flight, or the tile is in registers.
  void load_async(llvm::Value* start, llvm::Value* buffer);
  /// Writes the tile from registers to the buffer.
  void write(llvm::Value* buffer);
  SharedTile tile(llvm::Value* buffer) const;
  /// The same for a product whose depth is the other dim.
  SharedTile turned(llvm::Value* buffer) const;

 private:
  KernelContext& context_;
  llvm::IRBuilder<>& builder_;
  ThreadBlock& block_;
  const loop::ProductOperand& operand_;
  const Shape shape_;
  const GpuMachine::Copy* copy_;
  llvm::Type* element_;
  bool
      /// of shared memory: each is one place along the divided dim, else along the other one
      lines_are_places_;
  int64_t lines_ = 0, elements_ = 0;  ///< elements of a line that are read
  int64_t line_ = 0, buffer_ = 0;     ///< elements from one line, or one buffer, to the next
  int64_t step_ = 0;                  ///< elements from line to line in global memory
  llvm::Value *memory_ = nullptr, *first_ = nullptr;
  /// By part of the thread: address in shared memory, and loaded elements.
  std::vector<llvm::Value*> places_, values_;
};

}  // namespace ferrite::emitter
