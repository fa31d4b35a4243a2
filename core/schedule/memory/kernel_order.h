// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Less memory for what lives between kernels: the order in which they run, and results in the place of operands.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/schedule/schedule.h"

namespace ferrite::core::schedule {

/// Bytes of what lives between groups while each of them runs; results that the caller has memory for, inputs and constants are
/// not counted.
std::vector<int64_t> live_bytes(const Schedule& schedule);

/// The most bytes that would live at a time if each statement of a program, as it is lowered, were a kernel of its own: with its
/// result in memory of its own, from when it is made until nobody reads it any more. What only moves elements is a view there and
/// costs nothing. Counted as in live_bytes().
int64_t op_by_op_bytes(const LoopProgram& program);

/// How much a run may have between its kernels, their workspaces included.
struct MemoryLimit {
  std::optional<int64_t> op_by_op;  ///< op_by_op_bytes(); none: it is not known, and nothing is too much
  int64_t workers = 1;
  int64_t device_workers = 0;  ///< of a device that has memory of its own

  /// For a plan of so many buffers: what op-by-op execution has; 64 bytes a buffer, which is what they are aligned to, and 1 KiB;
  /// and for each worker of the host 1 MiB, about what a core has near itself, because what runs op by op brings operands together
  /// too.
  /// INT64_MAX where nothing is too much.
  int64_t bytes(size_t buffers) const;
  /// What a step of the scheduler may add between kernels where so much lives, whatever it gains: as bytes(), of one worker, so that
  /// results do not depend on how many there are.
  int64_t room(int64_t live) const;
  /// What the parts of a divided loop may take in any case: of a device's own memory 1 MiB for each of its workers. It hangs on no
  /// other step, so that a program divides its loops alike whatever stage its text is of.
  int64_t for_parts() const;
  /// Whether a kernel may have workspaces of so many bytes in all, where so many live while it runs.
  bool allows(int64_t workspace_bytes, int64_t live) const;
};

/// Brings the groups into an order of dependencies in which less lives at a time, where there is one: of those that may run next
/// the one that frees most. Statements are numbered anew. Run before groups are placed.
void order_for_memory(Schedule& schedule);

/// Lets groups store a result in the place of an operand that nobody reads later, wherever most lives at a time: the result's
/// buffer becomes a version of the operand's. All that the group reads of the operand it has read when it overwrites it: at the
/// same point, or in statements before, in the same iteration of the shared loops. `allowed`: groups that may, by number. A record
/// of kind "memory" each.
void store_in_place(Schedule& schedule, const std::vector<bool>& allowed, Ledger& ledger);

}  // namespace ferrite::core::schedule
