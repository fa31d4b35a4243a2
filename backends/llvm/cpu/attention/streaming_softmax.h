// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Streaming (online) softmax, for rows of scores that are too long to keep. For a block of rows, the kernel
// computes one tile of score columns at a time and accumulates it into the sums of the second product before
// it computes the next tile.
//
// Each row keeps the maximum of its scores so far and the sum of its exponentials, exp(score - maximum). If a
// tile has a larger score, the previous sums are multiplied by exp(old maximum - new maximum); the
// normalisation by 1 / sum comes last. After Milakov and Gimelshein, "Online normalizer calculation for
// softmax" (2018), and Dao, "FlashAttention-2" (2023). The size of the workspace does not depend on the
// number of columns.
#pragma once

#include <optional>

#include "backends/llvm/cpu/attention/attention_blocks.h"
#include "backends/llvm/gemm/plan.h"
#include "ferrite/emitter/kernel_context.h"
#include "ferrite/emitter/kernel_emitter.h"

namespace ferrite::emitter {

/// The plan's kernel has four statements: the scores, the maximum of a row, the exponentials with their sum,
/// and the second product.
struct StreamingSoftmax {
  GemmPlan scores, product;
  index::Symbol column = 0;             ///< the column symbol of the second and third statements
  loop::BufferId score = 0;             ///< a tile of scores, which the exponentials overwrite
  loop::BufferId maximum = 0, sum = 0;  ///< maximum and sum of the current row within the current tile
  loop::BufferId inverse_sum = 0;       ///< normalisation factor of each row of a block
  int64_t kept = 0;                     ///< elements from one row of scores to the next
  int64_t rows = 1, columns = 1;        ///< rows of a block, columns of a tile
  double cycles = 0;                    ///< estimated cycles of all rows on one core

  int64_t blocks() const { return (scores.rows.extent + rows - 1) / rows; }
};

/// Returns nullopt if the kernel is no softmax between two products, or if whole rows, as `whole` plans them,
/// are no slower. Otherwise the kernel becomes that of the plan: it computes the same results except for the
/// rounding of sums and of normalisation factors that are narrower than f32.
std::optional<StreamingSoftmax> plan_streaming_softmax(const Target& target, loop::Kernel& kernel,
                                                       const AttentionBlocks& whole);

/// The context's kernel must be the one that was planned.
void emit_streaming_softmax(KernelContext& context, const StreamingSoftmax& plan, EmitResult& result);

}  // namespace ferrite::emitter
