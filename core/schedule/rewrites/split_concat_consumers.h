// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Maps behind a concatenation, part by part.
#pragma once

#include "core/schedule/schedule.h"

namespace ferrite::core::schedule {

/// A concatenation of a few tensors whose only reader is a map over all of it is not stored: the map becomes one for each part, which
/// reads that part alone, and each part a tensor of its own, which inlining can put into its reader. Of several concatenations that one
/// map reads it is the first. True where something changed.
bool split_concat_consumers(LoopProgram& program, Ledger& ledger);

}  // namespace ferrite::core::schedule
