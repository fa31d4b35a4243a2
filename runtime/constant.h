// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Constants of a program.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace ferrite::core::runtime {

/// The contents of a constant buffer.
struct Constant {
  const std::byte* data =
      nullptr;  ///< contiguous elements; null if the program was read from a text that only names the weight
  uint64_t bytes = 0;
  std::string id;                                       ///< the weight's identity; empty for a literal
  std::shared_ptr<const std::vector<std::byte>> owned;  ///< owns `data` if nothing else does
};

}  // namespace ferrite::core::runtime
