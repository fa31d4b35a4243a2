// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Scatters that replace, of which the last update of an element stays, by kernels that run all their points at once.
#pragma once

#include "core/schedule/memory/kernel_order.h"
#include "core/schedule/schedule.h"

namespace ferrite::core::schedule {

/// Turns groups of a scatter that replaces, whose points would wait for each other on a target that runs those of scatters that
/// combine at once (TargetNumbers::ordered_ns), into three: one fills numbers, of the places that can be stored to, with -1; a scatter
/// leaves in each the largest number of an update of it, as the interpreter comes to them; and a map over what is stored to computes
/// the update of that number. A scatter whose numbers would take more than MemoryLimit::room() stays. Run after post_fusion. A record of kind
/// "parts", outcome "at once" or "not divided", each.
void parallel_scatter(Schedule& schedule, const TargetNumbers& target, const MemoryLimit& memory,
                      Ledger& ledger);

}  // namespace ferrite::core::schedule
