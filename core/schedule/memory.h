// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Less memory for what lives between kernels: the order in which they run, and results in the place of operands.
#pragma once

#include <cstdint>
#include <vector>

#include "core/schedule/schedule.h"

namespace ferrite::core::schedule {

/// Bytes of what lives between groups while each of them runs; results that the caller has memory for, inputs and constants are
/// not counted.
std::vector<int64_t> live_bytes(const Schedule& schedule);

/// Brings the groups into an order of dependencies in which less lives at a time, where there is one: of those that may run next
/// the one that frees most. Statements are numbered anew. Run before groups are placed.
void order_for_memory(Schedule& schedule);

/// Lets groups store a result in the place of an operand that nobody reads later, wherever most lives at a time: the result's
/// buffer becomes a version of the operand's. All that the group reads of the operand it has read when it overwrites it: at the
/// same point, or in statements before, in the same iteration of the shared loops. `allowed`: groups that may, by number. A record
/// of kind "memory" each.
void store_in_place(Schedule& schedule, const std::vector<bool>& allowed, Ledger& ledger);

}  // namespace ferrite::core::schedule
