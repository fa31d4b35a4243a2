// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Parses the text form of the graph (docs/text.md), and the parts of it that other text forms share.
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
  std::string file = "text";  ///< for error messages
  /// the folder against which names of weight files are resolved; empty: the working directory
  std::string weight_folder;
  const OpRegistry* registry = nullptr;  ///< null: ops are not checked, and each node must give its types
  /// Sizes of symbols, by name: dims that they determine become static. FE-G12 for a size that the symbol
  /// does not allow.
  std::span<const std::pair<std::string, int64_t>> sizes = {};
};

/// Errors are at file:line:column. Types given in the text must agree with the inferred ones (FE-G19).
Result<Graph> parse(std::string_view text, const ParseOptions& options);

/// A graph some of whose sizes are open. Left out are nodes whose result types depend on open sizes (FE-G27),
/// and all users of their results.
struct OpenGraph {
  struct Output {
    std::string name;
    std::optional<TensorType> type;  ///< none for a value that is left out
  };
  Graph graph;  ///< with all inputs, and with the outputs whose types are known
  std::vector<Output> outputs;
};

/// Parses as much of the graph as its given sizes determine.
Result<OpenGraph> parse_open(std::string_view text, const ParseOptions& options);

Result<TensorType> parse_type(text::Cursor& cursor, SymbolTable& symbols);
Result<AttributeValue> parse_attribute_value(text::Cursor& cursor);
/// Reads `{name = value, ...}`, if present.
Result<std::vector<Attribute>> parse_attributes(text::Cursor& cursor);
/// Reads the name of an op or attribute: an identifier, or a string for a name that is none.
Result<std::string> parse_word(text::Cursor& cursor, std::string_view what);

}  // namespace ferrite::core::graph
