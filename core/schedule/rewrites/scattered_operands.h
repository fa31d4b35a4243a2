// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Operands of matrix products that lie scattered in memory.
#pragma once

#include "core/schedule/schedule.h"

namespace ferrite::core::schedule {

/// Stores operands whose address is not linear in the loops of a matrix product, such as the joined heads of
/// an attention, as a copy whose address is. Kernels and libraries multiply such operands several times as
/// fast as operands that are gathered element by element. Products that read the same elements share a copy.
/// Runs after layouts are chosen, since these may have made the address linear.
void store_scattered_operands(LoopProgram& program, Ledger& ledger);

}  // namespace ferrite::core::schedule
