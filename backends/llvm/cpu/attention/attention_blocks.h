// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Contractions between other statements in loops that all of them share. Attention has this form: rows of
// scores, their softmax, and the product of the softmax with the values.
//
// At one point of the shared loops, a contraction has a single row and would read its other operand for that
// row alone. The statements are therefore interleaved per attention block, a range of values of the last
// shared loop: all rows of the block for one statement, then all rows for the next. Intermediate results stay
// in the caches, as in Dao et al., "FlashAttention" (2022). Whole rows of them are kept, so a softmax needs
// no running maximum.
#pragma once

#include <optional>
#include <vector>

#include "backends/llvm/gemm/plan.h"
#include "ferrite/emitter/kernel_context.h"
#include "ferrite/emitter/kernel_emitter.h"

namespace ferrite::emitter {

struct AttentionBlocks {
  /// by statement; nullopt: the statement runs row by row
  std::vector<std::optional<GemmPlan>> contracts;
  /// By buffer: number of LOCAL elements that each row of a block owns; 0: all rows reuse the same elements.
  std::vector<int64_t> kept;
  int64_t rows = 1;  ///< rows of a block

  int64_t blocks(const loop::Kernel& kernel) const {
    return (kernel.statements[0].vars[kernel.shared - 1].extent + rows - 1) / rows;
  }
};

/// Returns nullopt if no contraction inside shared loops can be computed in blocks. Otherwise the kernel's
/// strided buffers become one-dimensional, and its LOCAL buffers get room for a whole block.
std::optional<AttentionBlocks> plan_attention_blocks(const Target& target, loop::Kernel& kernel);

/// The context's kernel must be the one that was planned.
void emit_attention_blocks(KernelContext& context, const AttentionBlocks& plan, EmitResult& result);

/// Estimates the cycles of all rows on one core.
double attention_block_cycles(const Target& target, loop::Kernel& kernel, const AttentionBlocks& plan);

}  // namespace ferrite::emitter
