// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The sums of a block's tile in its threads' registers.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "backends/llvm/gpu/gemm/gpu_gemm.h"
#include "backends/llvm/gpu/gemm/matrix_instruction.h"

namespace ferrite::emitter {

/// What of both operands is in a stage.
struct SharedPieces {
  SharedPiece rows, columns;
};

/// What is done beside the products of a step.
struct GridStep {
  SharedPieces pieces, next;                               ///< of this step and the next one
  std::function<void(int64_t part, int64_t parts)> bring;  ///< of what a later step needs, some part
  std::function<void()> arrive;  ///< behind it `next` may be read, and what this step read be overwritten
};

/// The sums of a thread: how they come about, and where they lie in the tile.
class TileAccumulator {
 public:
  virtual ~TileAccumulator() = default;
  /// Before the first step, whose pieces may be read.
  virtual void begin(const SharedPieces&) {}
  /// Adds the products of the step's pieces.
  virtual void add_products(const GridStep& step) = 0;
  /// The sums go to the epilogue in this many turns of the same number of rows of the tile.
  virtual int64_t turns() const = 0;
  /// The row of the tile that row `number` of a turn is.
  virtual llvm::Value* row_of(int64_t turn, llvm::Value* number) = 0;
  /// Writes the thread's sums of a turn to a tile of rows by `line`.
  virtual void write(int64_t turn, llvm::Value* memory, int64_t line) = 0;
};

/// Rows of a turn.
int64_t grid_turn_rows(const GpuGemmPlan& plan);

std::unique_ptr<TileAccumulator> make_grid_sums(KernelContext& context, ThreadBlock& block,
                                                const GpuGemmPlan& plan);

}  // namespace ferrite::emitter
