// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The elements of a constant as text.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "core/ir/graph/types.h"
#include "core/ir/lexer/lexer.h"
#include "core/support/error.h"

namespace ferrite::core::graph {

/// "1, 2.5, nan": floats in the shortest decimal that reads back to the same bits, or in hex; NaN other than the
/// positive quiet one as nan(0xBITS); complex as (re, im); floats of 8 bits and less as their bits. `bytes` holds
/// `count` contiguous elements.
std::string print_elements(DType dtype, std::span<const std::byte> bytes, int64_t count);

/// Reads `{...}` with exactly `count` elements. FE-G18 for another number of them, or one that the dtype cannot hold.
Result<std::vector<std::byte>> parse_elements(text::Cursor& cursor, DType dtype, int64_t count);

}  // namespace ferrite::core::graph
