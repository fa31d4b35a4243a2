// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Making the summed dims of contraction operands contiguous in memory (k-contiguous).
#pragma once

#include "core/schedule/schedule.h"

namespace ferrite::core::schedule {

/// A temporary with one writer and one reader, a product that sums over several dims which are not adjacent
/// (such as the heads of an attention and the elements of each head), is stored with these dims last. The
/// product then reads contiguous rows in place. Otherwise it would have to pack each row first, again in
/// every task. The innermost dim stays innermost, so that the writer's contiguous runs keep their length.
/// Each such buffer is a ledger record of kind "layout", outcome "k contiguous".
void make_k_contiguous(LoopProgram& program, Ledger& ledger);

}  // namespace ferrite::core::schedule
