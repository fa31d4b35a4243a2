// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Of the conformance list what devices with many threads have ways of their own for, which smaller shapes do not take.
#pragma once

#include <cstdint>
#include <vector>

#include "tools/plugin_check/conformance/conformance_list.h"

namespace ferrite::core::plugin_check {

/// Lengths of rows, for sums over the first dim of [rows_of_sums, outer_of_columns, length]: a device whose blocks have 128 bytes of each
/// row has a block for each of 340 multiprocessors then. Rows of whole vectors, and rows that begin anywhere; both end within a block.
std::vector<int64_t> rows_of_columns(DType dtype);
inline constexpr int64_t outer_of_columns = 10;
inline constexpr int64_t rows_of_sums = 19;

/// Two products with the softmax of the first one's rows between them, of floats of 16 bits and more: as it stands, heads inside,
/// columns and values transposed, masked such that whole tiles and whole rows have no score, and with more columns than are kept at
/// once.
std::vector<KernelCase> attention_cases(DType dtype);

}  // namespace ferrite::core::plugin_check
