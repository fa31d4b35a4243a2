// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Results that a model writes to the memory of its inputs are computed there, instead of being copied.
#pragma once

#include "core/schedule/schedule.h"

namespace ferrite::core::schedule {

/// Removes the copies around a mutation of an input, such as a cache into which a few rows are stored. Where
/// nothing reads the old contents after the first change, the changed buffer becomes the input's own memory.
/// The copies may go through views, as long as these lead back to the same element. The same is done for a
/// copy of a whole buffer that is then changed in part, such as the base of a scatter: where the original's
/// old contents are dead, it is changed in place. Each case is a record of kind "memory": "in place", or
/// "copied" with the reason as its category.
void reinplace(LoopProgram& program, Ledger& ledger);

/// Where a result of the program is a copy of a whole temporary in the same order, computes the temporary in
/// the result's memory and removes the copy. A tensor with its channels innermost that the program also uses
/// is an example: only once layouts are chosen, it has the order of the temporary. A record of kind "memory",
/// "in place", for each.
void compute_in_results(LoopProgram& program, Ledger& ledger);

}  // namespace ferrite::core::schedule
