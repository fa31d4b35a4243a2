// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Padding the rows of large buffers to an alignment.
#pragma once

#include "core/schedule/memory/kernel_order.h"
#include "core/schedule/schedule.h"

namespace ferrite::core::schedule {

/// The row alignment that a target requests (provider.open_target).
struct RowPadding {
  int64_t alignment = 0;  ///< bytes, a power of two: the distance of rows is a multiple of it; 0: no request
  int64_t most_percent = 0;  ///< the most that padding may add to a row
  int64_t least_bytes = 0;   ///< the smallest buffer that is padded

  bool is_wanted() const { return alignment > 0; }
};

/// Gives large buffers strides that are multiples of `alignment` from row to row. A row is the innermost dim
/// of more than one element. Only temporaries that live between kernels are padded. Inputs, outputs,
/// constants, channels-last buffers, buffers of opaque kernels and buffers whose index is more than sums of
/// loop variables keep their strides. The padding is neither written nor read. Each large buffer whose rows
/// are not aligned, and each small one that lives between kernels, is a record of kind "layout", with the
/// reason as its category where it is not padded. Without a request nothing is done. Buffers that are padded
/// already stay as they are, and so do those whose padding would take the memory plan above its limit.
void pad_rows(Schedule& schedule, const RowPadding& padding, const MemoryLimit& memory, Ledger& ledger);

}  // namespace ferrite::core::schedule
