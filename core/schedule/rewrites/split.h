// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Dividing the work of one worker: reductions with few results, mixed-order reductions, and running sums.
#pragma once

#include "core/schedule/memory/kernel_order.h"
#include "core/schedule/schedule.h"

namespace ferrite::core::schedule {

/// The number of parts into which a reduction over all loops of `statement` should be divided; 1 where it
/// should not.
int64_t parts_that_pay(const LoopProgram& program, const Statement& statement, const TargetNumbers& target);

/// Divides groups of one reduction that leave workers idle, or that walk too many pages: into a reduction of
/// many parts, one for the rest where the parts are not equal, and one that combines the partial results. The
/// statements around the reduction are merged into it first. Counts follow from the program and the target
/// alone, never from the number of threads. Run after post_fusion. Each is a record of kind "parts"; where a
/// reduction stays whole though parts would pay, the outcome is "not divided".
void split_reductions(Schedule& schedule, const TargetNumbers& target, const MemoryLimit& memory,
                      Ledger& ledger);

/// Moves reductions over rows into the preceding group that works along the rows and accesses their inputs
/// (mixed-order reduction): each block of rows makes a partial result, and a group after it combines these.
/// Inputs that only the reductions read then live inside a block. The backward pass of layer norm is an
/// example. The method is TorchInductor's "mix order reduction" (pull request 165370). The partial results
/// take at most MemoryLimit::room(). Each is a record of kind "parts", outcome "merged".
void reduce_mixed_orders(Schedule& schedule, const TargetNumbers& target, const MemoryLimit& memory,
                         Ledger& ledger);

/// Divides serial loops over few rows whose state is a running sum, product, minimum or maximum, into three
/// statements: one computes the total of each of many parts of a row, one scans these totals, and one runs
/// all parts in parallel, each of which starts from the totals before it: "reduce, then scan" (Blelloch,
/// "Prefix sums and their applications", 1990). Counts and records are as for split_reductions(). Where the
/// parts leave a rest and other statements store to the same buffer, the loop stays, and the record's outcome
/// is "not divided".
void split_scans(Schedule& schedule, const TargetNumbers& target, const MemoryLimit& memory, Ledger& ledger);

}  // namespace ferrite::core::schedule
