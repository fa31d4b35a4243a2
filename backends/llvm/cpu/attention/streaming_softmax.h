// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Rows of scores that are too long to be kept: of a block of rows, a tile of columns at a time is scored, and goes into the sums of the
// second product before the next one.
//
// Each row has the most of its scores so far and the sum of its powers, exp(score - most). Where a tile has a larger score, what was
// summed before is multiplied by exp(old most - new most); the shares, 1 / sum, come last. After Milakov and Gimelshein, "Online
// normalizer calculation for softmax" (2018), and Dao, "FlashAttention-2" (2023). The workspace does not depend on the number of
// columns.
#pragma once

#include <optional>

#include "backends/llvm/cpu/attention/attention_blocks.h"
#include "backends/llvm/cpu/gemm/plan.h"
#include "ferrite/emitter/kernel_context.h"
#include "ferrite/emitter/kernel_emitter.h"

namespace ferrite::emitter {

/// The kernel of the plan has four statements: the scores, the most of a row, the powers and their sum, the second product.
struct StreamingSoftmax {
  ContractPlan scores, product;
  index::Symbol column = 0;          ///< of the second and third statements
  loop::BufferId score = 0;          ///< a tile, whose scores become their powers
  loop::BufferId most = 0, sum = 0;  ///< of the row at hand in the tile at hand
  loop::BufferId share = 0;          ///< of each row of a block
  int64_t kept = 0;                  ///< elements from one row of scores to the next
  int64_t rows = 1, columns = 1;     ///< of a block, of a tile
  double cycles = 0;                 ///< of all rows on one core, estimated

  int64_t blocks() const { return (scores.rows.extent + rows - 1) / rows; }
};

/// Nothing where the kernel is no softmax between two products, or takes no longer with whole rows, as `whole` plans them. Else the
/// kernel is turned into that of the plan: it computes the same but for the roundings of sums, and those of shares that are narrower
/// than f32.
std::optional<StreamingSoftmax> plan_running_rows(const Target& target, loop::Kernel& kernel,
                                                  const AttentionBlocks& whole);

/// Needs the kernel of the context to be the one that was planned.
void emit_running_rows(KernelContext& context, const StreamingSoftmax& plan, EmitResult& result);

}  // namespace ferrite::emitter
