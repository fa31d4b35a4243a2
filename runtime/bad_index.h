// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The error text for a data-dependent index out of range. The interpreter and the runtime share it.
#pragma once

#include <cstdint>
#include <string>

#include <fmt/format.h>

namespace ferrite::core::runtime {

/// "index 5 is out of range [-5, 5)", for a dim of size `extent`. If the index `wraps`, negative values count
/// from the end. `bits` holds a u64 if the index type `is_unsigned`, else an i64.
inline std::string describe_bad_index(uint64_t bits, int64_t extent, bool wraps, bool is_unsigned) {
  const auto index = is_unsigned ? fmt::to_string(bits) : fmt::to_string(static_cast<int64_t>(bits));
  return fmt::format("index {} is out of range [{}, {})", index, wraps && !is_unsigned ? -extent : 0, extent);
}

}  // namespace ferrite::core::runtime
