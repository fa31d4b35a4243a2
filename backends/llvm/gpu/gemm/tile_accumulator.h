// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The accumulators of a block's tile, in its threads' registers.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "backends/llvm/gpu/gemm/gpu_gemm.h"
#include "backends/llvm/gpu/gemm/matrix_instruction.h"

namespace ferrite::emitter {

/// The tiles of both operands in one stage.
struct SharedTiles {
  SharedTile rows, columns;
};

/// A step's operand tiles, and the work that overlaps with its products.
struct GemmStep {
  SharedTiles tiles, next;  ///< tiles of this step and of the next one
  /// issues part `part` of the loads for a later step
  std::function<void(int64_t part, int64_t parts)> load_async;
  std::function<void()> arrive;  ///< afterwards `next` may be read, and this step's tiles may be overwritten
};

/// A thread's accumulators: how the sums are computed, and where they lie in the tile.
class TileAccumulator {
 public:
  virtual ~TileAccumulator() = default;
  /// Called before the first step, whose tiles may be read.
  virtual void begin(const SharedTiles&) {}
  /// Adds the products of the step's tiles.
  virtual void add_products(const GemmStep& step) = 0;
  /// The sums go to the epilogue in this many rounds, each with the same number of rows of the tile.
  virtual int64_t rounds() const = 0;
  /// The row of the tile for row `number` of a round.
  virtual llvm::Value* row_of(int64_t round, llvm::Value* number) = 0;
  /// Writes the thread's sums of a round to memory whose rows are `line` elements apart.
  virtual void write(int64_t round, llvm::Value* memory, int64_t line) = 0;
};

/// Rows of one round.
int64_t rows_of_round(const GpuGemmPlan& plan);

std::unique_ptr<TileAccumulator> make_tile_accumulator(KernelContext& context, ThreadBlock& block,
                                                       const GpuGemmPlan& plan);

}  // namespace ferrite::emitter
