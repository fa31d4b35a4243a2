// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copies of matrix products, so that each kernel of tiles makes its own.
#pragma once

#include "core/schedule/schedule.h"

namespace ferrite::core::schedule {

/// The gradient of attention sums the same matrices along their rows (for the gradient of the queries) and
/// over their rows (for those of keys and values). A kernel of tiles keeps the sums of the dim along which it
/// does not walk, so each direction becomes a kernel of its own with its own copies of the products that make
/// the matrices; neither stores them. Two kernels compute seven products instead of five, but need no sums in
/// memory (Dao, "FlashAttention-2", 2023, adds to the gradient of the queries there, in no certain order).
/// Both directions must have the form of find_tiled_products(), else the program stays as it is. For targets
/// with Products::softmax.
void repeat_products(LoopProgram& program, const FusionLimits& limits, Ledger& ledger);

}  // namespace ferrite::core::schedule
