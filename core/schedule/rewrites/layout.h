// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The order in which the dims of buffers are stored.
#pragma once

#include <vector>

#include "core/schedule/schedule.h"

namespace ferrite::core::schedule {

/// By buffer, whether it is a temporary whose dims may be stored in any order: it is no view and no output,
/// and no call accesses it.
std::vector<bool> free_to_order(const LoopProgram& program);

/// Stores the inputs and outputs of convolutions with the channels innermost (channels last), where the
/// target asks for it, and propagates this layout through the program to all buffers that share a loop over
/// those channels. Inputs, outputs, constants and buffers of opaque kernels keep their order. Loops are
/// reordered to follow the stores. Each buffer whose order changes, and each remaining statement that
/// converts between layouts, is a record of kind "layout". Where the conversions take longer than the
/// convolutions between them gain, the whole region keeps its layout, which is a record with category "cost".
void choose_layouts(LoopProgram& program, const TargetNumbers& target, Ledger& ledger);

}  // namespace ferrite::core::schedule
