// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/passes/rewrite/language/attribute.h"

#include <algorithm>

#include "ferrite/abi/contrib.h"

namespace ferrite::core::rewrite {

using graph::AttributeValue;

bool same(const AttributeValue& a, const AttributeValue& b) {
  return graph::Attribute{{}, a} == graph::Attribute{{}, b};
}

std::optional<AttributeValue> converted(AttributeValue value, uint32_t kind) {
  if (kind_of(value) == kind) return value;
  if (kind == FE_ATTR_FLOAT) {
    if (const auto* integer = std::get_if<int64_t>(&value))
      return AttributeValue(static_cast<double>(*integer));
  }
  const auto* integers = std::get_if<std::vector<int64_t>>(&value);
  if (!integers) return std::nullopt;
  if (kind == FE_ATTR_FLOATS) return AttributeValue(std::vector<double>(integers->begin(), integers->end()));
  if (kind == FE_ATTR_STRINGS && integers->empty()) return AttributeValue(std::vector<std::string>());
  return std::nullopt;
}

AttributeValue normalised(const graph::Graph& graph, const graph::Node& node, const AttributeTerm& term,
                          AttributeValue value) {
  const bool of_result = term.flags & FE_ATTRIBUTE_AXIS_OF_RESULT;
  const auto& values = of_result ? node.results : node.operands;
  if (term.flags == 0 || values.empty() || !values[0]) return value;
  const auto rank = static_cast<int64_t>(graph.type(values[0]).rank());
  const auto from_front = [&](int64_t axis) { return axis < 0 ? axis + rank : axis; };
  if (auto* axis = std::get_if<int64_t>(&value)) *axis = from_front(*axis);
  if (auto* axes = std::get_if<std::vector<int64_t>>(&value)) {
    std::transform(axes->begin(), axes->end(), axes->begin(), from_front);
    std::sort(axes->begin(), axes->end());
  }
  return value;
}

}  // namespace ferrite::core::rewrite
