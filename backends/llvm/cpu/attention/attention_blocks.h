// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Contractions among other statements in the loops that all of them share, as attention has them: rows of scores, their softmax,
// and its product with the values.
//
// A contraction at one point of the shared loops has one row, and would read its other operand for that row alone. So statements do
// not follow each other at each point but for a block of values of the last shared loop: all rows of the block of one statement,
// then those of the next. What lies between them stays in the caches, as in Dao et al., "FlashAttention" (2022); whole rows of it
// are kept, so that a softmax needs no running maximum.
#pragma once

#include <optional>
#include <vector>

#include "backends/llvm/cpu/gemm/plan.h"
#include "ferrite/emitter/kernel_context.h"
#include "ferrite/emitter/kernel_emitter.h"

namespace ferrite::emitter {

struct AttentionBlocks {
  std::vector<std::optional<ContractPlan>> contracts;  ///< by statement; nothing: it runs row by row
  /// By buffer: elements of a LOCAL that each row of a block has for itself; 0: rows use the same ones after each other.
  std::vector<int64_t> kept;
  int64_t rows = 1;  ///< of a block

  int64_t blocks(const loop::Kernel& kernel) const {
    return (kernel.statements[0].vars[kernel.shared - 1].extent + rows - 1) / rows;
  }
};

/// Nothing where the kernel has no contraction inside shared loops that can be computed so. Else the kernel's strided buffers are
/// one-dimensional afterwards and LOCAL ones have room for a block.
std::optional<AttentionBlocks> plan_row_blocks(const Target& target, loop::Kernel& kernel);

/// Needs the kernel of the context to be the one that was planned.
void emit_row_blocks(KernelContext& context, const AttentionBlocks& plan, EmitResult& result);

/// Estimated cycles of all rows on one core.
double row_block_cycles(const Target& target, loop::Kernel& kernel, const AttentionBlocks& plan);

}  // namespace ferrite::emitter
