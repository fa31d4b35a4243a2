// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Splitting the consumers of a concatenation.
#pragma once

#include "core/schedule/schedule.h"

namespace ferrite::core::schedule {

/// A concatenation of a few tensors whose only reader is a map over all of it is not stored. The map becomes
/// one map for each part, which reads that part alone, and each part becomes a tensor of its own, which
/// inlining can put into its reader. Where one map reads several concatenations, the first one is handled.
/// Returns true where something changed.
bool split_concat_consumers(LoopProgram& program, Ledger& ledger);

}  // namespace ferrite::core::schedule
