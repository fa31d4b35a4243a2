// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The graph as text (docs/text.md). What is printed reads back as an equal graph.
#pragma once

#include <string>

#include "core/ir/graph/graph.h"

namespace ferrite::core::graph {

/// Weights in memory are printed by value up to here; the contents of larger ones are not in the text.
inline constexpr uint64_t max_printed_data = 64 * 1024;

std::string print(const Graph& graph);
/// One node's line, without indent and newline; unnamed values are numbered as in the whole text.
std::string print_node(const Graph& graph, NodeId node);
std::string print_type(const SymbolTable& symbols, const TensorType& type);
std::string print_attribute_value(const AttributeValue& value);
std::string print_guard(const SymbolTable& symbols, const Guard& guard);

}  // namespace ferrite::core::graph
