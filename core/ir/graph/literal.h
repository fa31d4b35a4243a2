// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Printing and parsing the elements of a constant.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "core/ir/graph/types.h"
#include "core/ir/lexer/lexer.h"
#include "core/support/error.h"

namespace ferrite::core::graph {

/// "1, 2.5, nan": the `count` contiguous elements of `bytes` as text. Floats print as the shortest decimal
/// that reads back to the same bits, or as hex; a NaN other than the positive quiet one prints as
/// nan(0xBITS), a complex number as (re, im), a float of 8 bits or less as its bits.
std::string print_elements(DType dtype, std::span<const std::byte> bytes, int64_t count);

/// Reads `{...}` with exactly `count` elements. FE-G18 for a wrong number of elements or an element that the
/// dtype cannot represent.
Result<std::vector<std::byte>> parse_elements(text::Cursor& cursor, DType dtype, int64_t count);

}  // namespace ferrite::core::graph
