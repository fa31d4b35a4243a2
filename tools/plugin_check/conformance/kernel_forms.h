// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Cases of the conformance list for the special kernels of devices with many threads, which smaller shapes do
// not reach.
#pragma once

#include <cstdint>
#include <vector>

#include "tools/plugin_check/conformance/conformance_list.h"

namespace ferrite::core::plugin_check {

/// Lengths of rows for sums over the first dim of [rows_of_sums, outer_of_columns, length]. A device whose
/// blocks process 128 bytes of each row then has a block for each of 340 multiprocessors. One length gives
/// rows of whole vectors, the other rows with unaligned starts; both end within a block.
std::vector<int64_t> rows_of_columns(DType dtype);
inline constexpr int64_t outer_of_columns = 10;
inline constexpr int64_t rows_of_sums = 19;

/// Two products with the softmax of the first one's rows between them, for floats of 16 bits and more: in
/// plain order, with heads inside, with transposed columns and values, with masks that leave whole tiles and
/// whole rows without scores, and with more columns than are kept at once.
std::vector<KernelCase> attention_cases(DType dtype);

}  // namespace ferrite::core::plugin_check
