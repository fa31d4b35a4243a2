// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Splitting loops in the way in which the preceding writer's loops are split.
#pragma once

#include "core/schedule/schedule.h"

namespace ferrite::core::schedule {

/// Whether the index of a dim gives each point of its loops an element of its own: a sum of the statement's
/// parallel loops in which each loop counts whole ranges of the following ones, such as 2*y + a with a below
/// 2.
bool counts_through(const LoopProgram& program, const Statement& statement, index::Expr dim);

/// A contraction may store one dim from two loops, 2*y + a, while the maps that follow it run over that dim
/// in one loop. That loop is split into the same two, so that the statements have loops in common and can
/// become one kernel. The loops of maps that follow these maps are split in the same way. So is the loop of a
/// map that reads the result of a reduction through a reshape that joins two of its dims.
void cut_loops(LoopProgram& program);

}  // namespace ferrite::core::schedule
