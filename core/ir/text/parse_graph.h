// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The text form of the graph (docs/text.md) read back, and the parts of it that other text forms use too.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/ir/graph/graph.h"
#include "core/ir/graph/op_registry.h"
#include "core/ir/lexer/lexer.h"

namespace ferrite::core::graph {

struct ParseOptions {
  std::string file = "text";             ///< for error messages
  std::string weight_folder;             ///< what weight files are relative to; empty: the working directory
  const OpRegistry* registry = nullptr;  ///< null: ops are not checked, and each node must give its types
  /// Of symbols, by name: dims that they decide are read as static ones. FE-G12 for a size that the symbol cannot have.
  std::span<const std::pair<std::string, int64_t>> sizes = {};
};

/// Errors are at file:line:column. Types given in the text must agree with the inferred ones (FE-G19).
Result<Graph> parse(std::string_view text, const ParseOptions& options);

/// A graph whose sizes are not all given. Nodes whose result types need them (FE-G27), and those that use their results, are
/// left out of it.
struct OpenGraph {
  struct Output {
    std::string name;
    std::optional<TensorType> type;  ///< none of what is left out
  };
  Graph graph;  ///< with all inputs, and the outputs whose types are known
  std::vector<Output> outputs;
};

/// As parse(), of what can be read before the sizes are given.
Result<OpenGraph> parse_open(std::string_view text, const ParseOptions& options);

Result<TensorType> parse_type(text::Cursor& cursor, SymbolTable& symbols);
Result<AttributeValue> parse_attribute_value(text::Cursor& cursor);
/// `{name = value, ...}`, or nothing.
Result<std::vector<Attribute>> parse_attributes(text::Cursor& cursor);
/// The name of an op or an attribute: an identifier, or a string where it is none.
Result<std::string> parse_word(text::Cursor& cursor, std::string_view what);

}  // namespace ferrite::core::graph
