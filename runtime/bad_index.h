// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The text of an index from data that is out of range, which the interpreter and the runtime say alike.
#pragma once

#include <cstdint>
#include <string>

#include <fmt/format.h>

namespace ferrite::core::runtime {

/// "index 5 is out of range [-5, 5)": of a dim of size `extent`; negative ones count from the end where it `wraps`. `bits` are those of
/// a u64 where its type `is_unsigned`, else of an i64.
inline std::string describe_bad_index(uint64_t bits, int64_t extent, bool wraps, bool is_unsigned) {
  const auto index = is_unsigned ? fmt::to_string(bits) : fmt::to_string(static_cast<int64_t>(bits));
  return fmt::format("index {} is out of range [{}, {})", index, wraps && !is_unsigned ? -extent : 0, extent);
}

}  // namespace ferrite::core::runtime
