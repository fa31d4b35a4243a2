// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Splat constants (all elements equal one number), and conversion of numbers to elements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "core/ir/graph/graph.h"
#include "core/passes/rewrite/language/rule.h"

namespace ferrite::core::rewrite {

/// The element nearest to the number, little endian, in as many bytes as an element needs. None if the dtype
/// cannot represent the number (a fraction or overflow for integers, out of range for floats) or is neither
/// bool nor an integer nor a float of 16 bits or more.
std::optional<std::vector<std::byte>> element_bytes(DType dtype, const Number& number);

/// Caches splat values: each constant is read at most once. The key is the handle, which is never reused, so
/// the cache stays valid while the graph changes.
class SplatCache {
 public:
  /// The number that all elements equal. None for a value that is no literal or weight, has no elements, no
  /// readable bytes, different elements, or a dtype that element_bytes rejects.
  std::optional<Number> number(const graph::Graph& graph, graph::ValueId value);

  /// Whether every element equals the number rounded to the dtype. -0 equals 0, and NaN equals NaN.
  bool equals(const graph::Graph& graph, graph::ValueId value, const Number& number);

 private:
  std::unordered_map<uint64_t, std::optional<Number>> numbers_;
};

}  // namespace ferrite::core::rewrite
