// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The graph as text (docs/text.md). Printed text parses back to an equal graph.
#pragma once

#include <string>

#include "core/ir/graph/graph.h"

namespace ferrite::core::graph {

/// The largest weight in memory, in bytes, that is printed with its contents. The contents of larger weights
/// are omitted.
inline constexpr uint64_t max_printed_data = 64 * 1024;

std::string print(const Graph& graph);
/// One node's line, without indentation and newline. Unnamed values have the same numbers as in the whole
/// text.
std::string print_node(const Graph& graph, NodeId node);
std::string print_type(const SymbolTable& symbols, const TensorType& type);
std::string print_attribute_value(const AttributeValue& value);
std::string print_guard(const SymbolTable& symbols, const Guard& guard);

}  // namespace ferrite::core::graph
