// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Constants by value: the one number that all elements are, and numbers as elements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "core/ir/graph/graph.h"
#include "core/passes/rewrite/language/rule.h"

namespace ferrite::core::rewrite {

/// The element nearest to the number, little endian, as many bytes as one element needs; none where the dtype cannot
/// hold it (a fraction or too large for integers, beyond the range of a float) or is neither bool, integer nor a float
/// of 16 bits or more.
std::optional<std::vector<std::byte>> element_bytes(DType dtype, const Number& number);

/// Reads each constant at most once. A constant is named by its handle, which is never given twice, so that the cache
/// stays right while the graph is edited.
class SplatCache {
 public:
  /// The number that every element is; none for what is no literal or weight, has no elements, no readable bytes,
  /// elements that differ, or another dtype than element_bytes takes.
  std::optional<Number> number(const graph::Graph& graph, graph::ValueId value);

  /// Whether every element equals the number rounded to the dtype: -0 equals 0, NaN equals NaN.
  bool equals(const graph::Graph& graph, graph::ValueId value, const Number& number);

 private:
  std::unordered_map<uint64_t, std::optional<Number>> numbers_;
};

}  // namespace ferrite::core::rewrite
