// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How far the rows of large buffers lie apart.
#pragma once

#include "core/schedule/memory/kernel_order.h"
#include "core/schedule/schedule.h"

namespace ferrite::core::schedule {

/// What a target wishes of the rows of buffers (provider.open_target).
struct RowPadding {
  int64_t alignment = 0;     ///< bytes, a power of two: rows lie multiples of it apart; 0: no wish
  int64_t most_percent = 0;  ///< that this may add to a row
  int64_t least_bytes = 0;   ///< of a buffer that is padded

  bool is_wanted() const { return alignment > 0; }
};

/// Gives large buffers strides with which their rows lie multiples of `alignment` apart. A row is what the innermost dim of more
/// than one element holds. Only what lives between kernels and nobody outside of the program sees is padded; inputs, outputs,
/// constants, what is stored channels last, what opaque kernels touch and what is addressed by more than sums of loop variables
/// keep their strides. What lies between rows is neither written nor read. Each large buffer whose rows do not lie so, and each
/// small one that lives between kernels, is a record of kind "layout", with the category of why it was left alone. Without a
/// wish nothing is done. What is padded already stays as it is, and so does what would take the memory plan above its limit.
void pad_rows(Schedule& schedule, const RowPadding& padding, const MemoryLimit& memory, Ledger& ledger);

}  // namespace ferrite::core::schedule
