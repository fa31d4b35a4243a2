// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Loops that are cut in two as those of what writes before them are.
#pragma once

#include "core/schedule/schedule.h"

namespace ferrite::core::schedule {

/// Whether a dim's index gives each point of the loops that it adds an element of its own: a sum of parallel loops of the statement
/// in which each counts whole ranges of the following ones, such as 2*y + a where a runs below 2.
bool counts_through(const LoopProgram& program, const Statement& statement, index::Expr dim);

/// A contraction may store one dim from two loops, 2*y + a, and the maps that follow it run over the dim in one: theirs is cut into
/// the same two, so that they have loops in common and can become one kernel. So are those of the maps behind them.
void cut_loops(LoopProgram& program);

}  // namespace ferrite::core::schedule
