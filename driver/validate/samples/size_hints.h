// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The sizes that the conditions of a rule ask for.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/passes/rewrite/language/rule.h"

namespace ferrite::core::validate {

inline constexpr int64_t most_elements = 1 << 18;  ///< of a tensor of a sample

/// Candidates for a size that a condition compares with integers, one of which probably satisfies it: each
/// integer, for an inequality also its neighbours, and for arithmetic the sums, differences, products and
/// quotients of two of them. All are 1 to `most_elements`, except ranks, which are 0 to 8.
struct SizeHints {
  struct Size {
    std::optional<int64_t> axis;  ///< counted from the end where negative; none: any
    int64_t size = 0;
    bool fits(size_t dim, size_t rank) const;
  };
  std::vector<Size> sizes;
  std::vector<int64_t> elements;             ///< numbers of elements
  std::vector<std::vector<int64_t>> shapes;  ///< whole shapes
  std::vector<int64_t> ranks;
  bool any() const { return !sizes.empty() || !elements.empty() || !shapes.empty(); }
};

SizeHints size_hints(const rewrite::Rule& rule);

}  // namespace ferrite::core::validate
