// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tensor types and attributes of the Graph IR.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "ferrite/abi/graph.h"
#include "ferrite/dtype.hpp"
#include "ferrite/index.hpp"

namespace ferrite::core::graph {

/// A dimension in the encoding of fe_dim: >= 0 is a static size; < 0 is the expression with id -(1 + dim) in
/// the graph's pool.
using Dim = fe_dim;
constexpr bool is_static(Dim dim) { return dim >= 0; }
constexpr index::Expr expression_of(Dim dim) { return {static_cast<uint32_t>(-(dim + 1))}; }
constexpr Dim dim_of(index::Expr expression) { return -1 - static_cast<Dim>(expression.id); }

/// A factor of a logical dim in a blocked layout. `size` 0: whatever the later factors of the dim leave.
struct Block {
  uint32_t dim = 0;
  int64_t size = 0;
  friend bool operator==(const Block&, const Block&) = default;
};

/// The arrangement of the elements in memory. Only the fields of `kind` are used; the others keep their
/// defaults.
struct Layout {
  uint16_t kind = FE_LAYOUT_ANY;
  std::vector<int64_t> strides;  ///< strided: one per dim, in elements
  int64_t offset = 0;            ///< strided: in elements
  uint32_t alignment = 0;        ///< bytes; 0: the dtype's own alignment
  std::vector<Block> blocks;     ///< blocked: the stored dims, outermost first
  std::string tag;               ///< opaque: the provider's name for the layout
  friend bool operator==(const Layout&, const Layout&) = default;
};

struct TensorType {
  DType dtype = DType::none;
  std::vector<Dim> dims;
  Layout layout;
  uint32_t device = 0;  ///< index into the program's device table

  size_t rank() const { return dims.size(); }
  /// The product of the dims; none if a dim is symbolic or the product exceeds int64.
  std::optional<int64_t> elements() const {
    int64_t count = 1;
    for (Dim dim : dims) {
      if (!is_static(dim) || __builtin_mul_overflow(count, dim, &count)) return std::nullopt;
    }
    return count;
  }
  /// The size in bytes of the contiguous elements; none in the same cases.
  std::optional<int64_t> bytes() const {
    auto count = elements();
    int64_t bits = 0;
    if (!count || __builtin_mul_overflow(*count, int64_t{bits_of(dtype)}, &bits) || bits > INT64_MAX - 7) {
      return std::nullopt;
    }
    return (bits + 7) / 8;
  }
  /// Compares the parts that a shape rule decides; layout and device are decided later.
  bool same_shape(const TensorType& other) const { return dtype == other.dtype && dims == other.dims; }
  friend bool operator==(const TensorType&, const TensorType&) = default;
};

/// Attribute values. The alternatives are in the order of FE_ATTR_*, the values of `kind`.
using AttributeValue = std::variant<int64_t, double, std::string, DType, std::vector<int64_t>,
                                    std::vector<double>, std::vector<std::string>, bool>;
struct Attribute {
  std::string name;
  AttributeValue value;

  uint32_t kind() const { return static_cast<uint32_t>(value.index()) + 1; }
};
/// Compares floats bitwise: NaN equals itself, and -0 differs from 0.
bool operator==(const Attribute& a, const Attribute& b);

/// The name of an FE_ATTR_* kind in messages.
std::string_view attribute_kind_name(uint32_t kind);

}  // namespace ferrite::core::graph
