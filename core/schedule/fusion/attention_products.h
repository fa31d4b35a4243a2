// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernels that make and take rows of products, as attention does: scores, their softmax, its product with the values.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/schedule/schedule.h"

namespace ferrite::core::schedule {

/// Rows of all lengths: a worker has those of a block in memory of its own, which is less than all of them and is used again for the
/// next block.
class FusedGemmChain {
 public:
  /// Keeps references. `constant`, by statement: it reads constants only.
  FusedGemmChain(const LoopProgram& program, const Dependencies& deps, const std::vector<bool>& constant,
                 const FusionLimits& limits)
      : program_(program), deps_(deps), constant_(constant), limits_(limits) {}

  struct Answer {
    bool is = false;       ///< the statements are such a kernel over the loops
    std::string category;  ///< where they would be one but for their sizes: that of the refusal
    std::string text;
  };
  /// Of statements in order that are to share so many loops.
  Answer ask(std::span<const uint32_t> statements, uint32_t shared) const;

 private:
  struct Product {
    int64_t rows = 0;          ///< values of the last shared loop
    int64_t points = 1;        ///< of the loops before it that the columns depend on
    int64_t column_bytes = 0;  ///< of all columns at one of those points
    int64_t a_row = 1;         ///< multiplications
  };
  /// Nothing where the statement is no product inside of so many shared loops that makes, along the last of them, rows that multiply
  /// the same columns. Neither operand is a constant: those are better packed, for a kernel of their own. Convolutions have another
  /// way.
  std::optional<Product> product(uint32_t statement, uint32_t shared) const;
  /// Whether the loop behind the shared ones has one value in all of the statements: then there is one row.
  bool is_single(std::span<const uint32_t> statements, uint32_t shared) const;
  bool is_constant(BufferId storage) const;
  /// Whether a product by rows that is not one of the statements makes what they read, or reads what they make.
  bool has_another(std::span<const uint32_t> statements, uint32_t shared) const;

  const LoopProgram& program_;
  const Dependencies& deps_;
  const std::vector<bool>& constant_;
  const FusionLimits& limits_;
};

}  // namespace ferrite::core::schedule
