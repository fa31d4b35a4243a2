// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reducing the memory between kernels: the order of the kernels, and results that overwrite operands.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/schedule/schedule.h"

namespace ferrite::core::schedule {

/// By group, the bytes that live between groups while it runs. Inputs, constants and results in the caller's
/// memory are not counted.
std::vector<int64_t> live_bytes(const Schedule& schedule);

/// The peak of live bytes if each statement of a program, as lowered, were a kernel of its own: each result
/// has memory of its own, from its computation to its last use. Statements that only move elements count as
/// views and cost nothing. Counted as in live_bytes().
int64_t op_by_op_bytes(const LoopProgram& program);

/// The memory that a run may have between its kernels, including their workspaces.
struct MemoryLimit {
  std::optional<int64_t> op_by_op;  ///< op_by_op_bytes(); none: unknown, and there is no limit
  int64_t workers = 1;
  int64_t device_workers = 0;  ///< of a device with memory of its own

  /// The limit for a memory plan of this many buffers: the op-by-op peak; 64 bytes for each buffer, which is
  /// its alignment, and 1 KiB; and 1 MiB for each worker of the host, about the size of a core's own cache,
  /// because op-by-op execution packs operands too. INT64_MAX where there is no limit. A plan may have twice
  /// the bytes of an operand that is packed before a launch, in addition.
  int64_t bytes(size_t buffers) const;
  /// The bytes that a step of the scheduler may add between kernels where `live` bytes live already, whatever
  /// the gain. The same limit as bytes(), but for one worker, so that results do not depend on the number of
  /// workers.
  int64_t room(int64_t live) const;
  /// The bytes that the parts of a divided loop may always take: 1 MiB of a device's own memory for each of
  /// its workers. The value does not depend on other steps, so that a program's loops are divided alike at
  /// whatever stage its text was taken.
  int64_t for_parts() const;
  /// Whether a kernel may have workspaces of this many bytes in all, where `live` bytes live while it runs.
  /// On a device with memory of its own, 1 MiB is always allowed.
  bool allows(int64_t workspace_bytes, int64_t live) const;
};

/// Reorders the groups, within their dependencies, so that the peak of live bytes falls, where such an order
/// is found. The heuristic always takes the ready group that frees most. Statements are renumbered. Run
/// before the groups' devices are chosen.
void order_for_memory(Schedule& schedule);

/// Lets groups at the peak of live bytes store a result over an operand that is dead after them: the result's
/// buffer becomes a version of the operand's. The group must have read an element of the operand before it
/// overwrites it: at the same point, or in earlier statements of the same iteration of the shared loops.
/// `allowed`: by group, whether it may. Each change is a record of kind "memory".
void store_in_place(Schedule& schedule, const std::vector<bool>& allowed, Ledger& ledger);

}  // namespace ferrite::core::schedule
