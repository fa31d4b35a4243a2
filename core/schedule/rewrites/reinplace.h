// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a model leaves in the memory of its inputs is made there, instead of being copied.
#pragma once

#include "core/schedule/schedule.h"

namespace ferrite::core::schedule {

/// Drops the copies around a mutation of an input, such as a cache that a few rows are stored into: where nobody reads the old
/// contents behind the first change, the buffer that is changed becomes the input's. The copies may go through views, as long as
/// they lead back to the same element. So does the copy of a whole buffer of which a part is changed then, as the base of a scatter is:
/// where its old contents are dead it is changed where it is. A record of kind "memory" each: "in place", or "copied" with the
/// reason as its category.
void reinplace(LoopProgram& program, Ledger& ledger);

}  // namespace ferrite::core::schedule
