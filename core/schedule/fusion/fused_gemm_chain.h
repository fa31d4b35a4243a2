// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernels that make and consume rows of matrix products, as attention does: the scores, their softmax and its
// product with the values.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/schedule/schedule.h"

namespace ferrite::core::schedule {

/// Recognises chains of matrix products that share their row loop. A worker keeps the rows of one block in
/// local memory. A block is smaller than the whole result, and its memory is reused for the next block.
class FusedGemmChain {
 public:
  /// Keeps references. `constant`: by statement, whether it reads only constants.
  FusedGemmChain(const LoopProgram& program, const Dependencies& deps, const std::vector<bool>& constant,
                 const FusionLimits& limits)
      : program_(program), deps_(deps), constant_(constant), limits_(limits) {}

  struct Answer {
    bool is = false;       ///< the statements are such a kernel over the shared loops
    std::string category;  ///< where only their sizes keep them from being one: the category of the refusal
    std::string text;
  };
  /// Asks about statements, in order of execution, that are to share this many loops.
  Answer ask(std::span<const uint32_t> statements, uint32_t shared) const;

 private:
  struct Product {
    int64_t rows = 0;          ///< extent of the last shared loop
    int64_t points = 1;        ///< of the shared loops before it: points that have different columns
    int64_t column_bytes = 0;  ///< bytes of all columns at one of those points
    int64_t a_row = 1;         ///< multiplications per element of the first operand's row
  };
  /// The statement as a matrix product inside `shared` loops: along the last of them it makes rows that are
  /// multiplied by the same columns. Nothing where it is no such product. Products with a constant operand
  /// are excluded, because a kernel of their own can use the packed constant. Convolutions are excluded; they
  /// have kernels of their own.
  std::optional<Product> product(uint32_t statement, uint32_t shared) const;
  /// Whether the loop after the shared ones has extent 1 in all statements. There is one row then.
  bool is_single(std::span<const uint32_t> statements, uint32_t shared) const;
  bool is_constant(BufferId storage) const;
  /// Whether a statement outside of the list that is such a product writes a buffer that they read, or reads
  /// one that they write.
  bool has_another(std::span<const uint32_t> statements, uint32_t shared) const;

  const LoopProgram& program_;
  const Dependencies& deps_;
  const std::vector<bool>& constant_;
  const FusionLimits& limits_;
};

}  // namespace ferrite::core::schedule
