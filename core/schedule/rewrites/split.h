// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Dividing what one worker would do alone: reductions with few results, those over rows beside others along them, and running sums.
#pragma once

#include "core/schedule/memory/kernel_order.h"
#include "core/schedule/schedule.h"

namespace ferrite::core::schedule {

/// Into how many parts a reduction over all loops of `statement` is better divided; 1 where it is not.
int64_t parts_that_pay(const LoopProgram& program, const Statement& statement, const TargetNumbers& target);

/// Turns groups of one reduction that leave workers idle, or walk too many pages, into one of many parts, one of what is left where
/// these are not of one size, and one of what they give. What stands around the reduction is merged into it first. Counts follow
/// from the program and the target alone, never from the number of threads. Run after post_fusion. A record of kind "parts" each; of one that stays whole though parts would
/// pay the outcome is "not divided".
void split_reductions(Schedule& schedule, const TargetNumbers& target, const MemoryLimit& memory,
                      Ledger& ledger);

/// Puts reductions over rows into the group before them that works along these and has at hand what they read: in each block of rows
/// a part of them, and a group behind that combines the parts. What only they read of it then lives inside a block. Layer norm's
/// backward is such: TorchInductor's "mix order reduction" (pull request 165370). The parts take at most MemoryLimit::room(). A record of
/// kind "parts", outcome "mixed", each.
void reduce_mixed_orders(Schedule& schedule, const TargetNumbers& target, const MemoryLimit& memory,
                         Ledger& ledger);

/// Turns serial loops of few rows, whose state is a running sum, product, minimum or maximum, into one that gives the total of each of
/// many parts of a row, one over these totals, and one of all parts at once, each of which starts from the totals before it: "reduce,
/// then scan" (Blelloch, "Prefix sums and their applications", 1990). Counts and records as of split_reductions(); where the parts leave
/// a rest, and others store to the same buffer, the loop stays, and the record's outcome is "not divided".
void split_scans(Schedule& schedule, const TargetNumbers& target, const MemoryLimit& memory, Ledger& ledger);

}  // namespace ferrite::core::schedule
