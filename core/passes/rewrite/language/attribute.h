// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Normalises attributes for comparison: converts them to the declared kind, and counts axes from the front.
#pragma once

#include <cstdint>
#include <optional>

#include "core/ir/graph/graph.h"
#include "core/ir/graph/types.h"
#include "core/passes/rewrite/language/rule.h"

namespace ferrite::core::rewrite {

/// The FE_ATTR_* kind of a value.
inline uint32_t kind_of(const graph::AttributeValue& value) {
  return static_cast<uint32_t>(value.index()) + 1;
}
/// Equality; floats compare bitwise.
bool same(const graph::AttributeValue& a, const graph::AttributeValue& b);

/// The value converted to a kind: an integer becomes a float, an empty list a list of any kind. None if the
/// kinds do not agree.
std::optional<graph::AttributeValue> converted(graph::AttributeValue value, uint32_t kind);

/// The form of a node's attribute that rules compare: axes (FE_ATTRIBUTE_AXIS…) count from the first dim, and
/// lists of axes are sorted. `value` is an attribute of the node or a value to compare with one.
graph::AttributeValue normalised(const graph::Graph& graph, const graph::Node& node,
                                 const AttributeTerm& term, graph::AttributeValue value);

}  // namespace ferrite::core::rewrite
