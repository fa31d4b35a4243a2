// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Computing values again instead of keeping them: less memory between kernels for a little more work.
#pragma once

#include "core/schedule/schedule.h"

namespace ferrite::core::schedule {

/// Divides the life of values that are made and read early, and read again late, as activations of a training
/// step are: a copy of the statements that make such a value runs directly before the late reader, so that
/// the value needs no memory between. Its operands must exist then, or be small. Values are chosen one by
/// one, each at the peak of live bytes of its time, those first that free most bytes for the work of their
/// copies, as in XLA's HloRematerialization. The copies take at most a thirty-second of the program's work
/// by the target's numbers, and none is made if the peak falls by less than a sixteenth. Each copy is a
/// record of kind "memory". Statements are renumbered. Run on groups in their final order, before statements
/// merge.
void recompute(Schedule& schedule, const TargetNumbers& target, Ledger& ledger);

}  // namespace ferrite::core::schedule
