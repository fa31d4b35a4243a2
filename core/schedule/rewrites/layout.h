// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// In which order the dims of buffers are stored.
#pragma once

#include <vector>

#include "core/schedule/schedule.h"

namespace ferrite::core::schedule {

/// By buffer, whether it is a temporary whose dims may be stored in any order: no view, no output, and nothing that a call touches.
std::vector<bool> free_to_order(const LoopProgram& program);

/// Where the target wants that, stores what convolutions read and write with the channels innermost, and everything that shares a
/// loop over those channels with it, over the whole program; inputs, outputs, constants and what opaque kernels touch keep their order. The loops of each
/// statement concerned follow what it stores. Each buffer whose order changes, and each statement that is left to bring values
/// from one order to another, is a record of kind "layout". Where bringing values from one order to the other takes longer than the
/// convolutions between gain by theirs, all that hangs together with them stays as it is, which is a record with category "cost".
void choose_layouts(LoopProgram& program, const TargetNumbers& target, Ledger& ledger);

}  // namespace ferrite::core::schedule
