// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Scatters that replace elements, of which the last update must win, become kernels that run all their points
// in parallel.
#pragma once

#include "core/schedule/memory/kernel_order.h"
#include "core/schedule/schedule.h"

namespace ferrite::core::schedule {

/// Some targets run combining scatters in parallel but replacing ones in order (TargetNumbers::ordered_ns).
/// For such a target this turns a group of one replacing scatter into three. The first fills a buffer, with
/// one number for each element that can be stored to, with -1. The second is a scatter that leaves there the
/// largest number of an update to the element, in the interpreter's order. The third is a map over the
/// updated buffer that computes the update of that number. A scatter whose numbers would take more than
/// MemoryLimit::room() stays. Run after post_fusion. Each is a record of kind "parts", outcome "parallel" or
/// "not divided".
void parallel_scatter(Schedule& schedule, const TargetNumbers& target, const MemoryLimit& memory,
                      Ledger& ledger);

}  // namespace ferrite::core::schedule
