// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Attributes as rules compare them: brought to the kind that the op declares, axes counted from the front.
#pragma once

#include <cstdint>
#include <optional>

#include "core/ir/graph/graph.h"
#include "core/ir/graph/types.h"
#include "core/passes/rewrite/language/rule.h"

namespace ferrite::core::rewrite {

/// FE_ATTR_* of a value.
inline uint32_t kind_of(const graph::AttributeValue& value) {
  return static_cast<uint32_t>(value.index()) + 1;
}
/// Floats by bits.
bool same(const graph::AttributeValue& a, const graph::AttributeValue& b);

/// The value as an attribute of a kind: integers become floats, an empty list any list; none where it is of another kind.
std::optional<graph::AttributeValue> converted(graph::AttributeValue value, uint32_t kind);

/// What an attribute of a node is for its rule: axes (FE_ATTRIBUTE_AXIS…) are counted from the first dim on, lists of them in
/// ascending order. `value` is an attribute of the node, or one that is compared with it.
graph::AttributeValue normalised(const graph::Graph& graph, const graph::Node& node,
                                 const AttributeTerm& term, graph::AttributeValue value);

}  // namespace ferrite::core::rewrite
