// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Operands of products whose summed dims lie apart.
#pragma once

#include "core/schedule/schedule.h"

namespace ferrite::core::schedule {

/// A temporary that one statement writes and one product reads, summing over several dims that do not lie together (the heads of an
/// attention and what each has), is stored with these dims last: the product then reads rows of memory in place, where it would
/// bring each into order first, again for every task. The last dim stays the last one, so that the writer's runs are as long as that.
/// Each such buffer is a ledger record of kind "layout", outcome "depth last".
void make_k_contiguous(LoopProgram& program, Ledger& ledger);

}  // namespace ferrite::core::schedule
