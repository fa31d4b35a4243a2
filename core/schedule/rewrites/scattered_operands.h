// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Operands and results of matrix products that lie in memory as their kernels cannot use it well.
#pragma once

#include "core/schedule/rewrites/padding.h"
#include "core/schedule/schedule.h"

namespace ferrite::core::schedule {

/// Stores operands whose address is not linear in the loops of a matrix product, such as the joined heads of
/// an attention, as a copy whose address is. Kernels and libraries multiply such operands several times as
/// fast as operands that are gathered element by element. Products that read the same elements share a copy.
/// Runs after layouts are chosen, since these may have made the address linear.
///
/// Where the target asks for padded rows, large inputs and outputs of the program whose rows are not aligned
/// to vectors are copied, too: products read, or write, a temporary with padded rows.
void store_scattered_operands(LoopProgram& program, const RowPadding& padding, Ledger& ledger);

}  // namespace ferrite::core::schedule
