// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The text form of the graph (docs/text.md) read back, and the parts of it that other text forms use too.
#pragma once

#include <string>
#include <string_view>

#include "core/graph/graph.h"
#include "core/graph/op_registry.h"
#include "core/text/lexer.h"

namespace ferrite::core::graph {

struct ParseOptions {
  std::string file = "text";             ///< for error messages
  std::string weight_folder;             ///< what weight files are relative to; empty: the working directory
  const OpRegistry* registry = nullptr;  ///< null: ops are not checked, and each node must give its types
};

/// Errors are at file:line:column. Types given in the text must agree with the inferred ones (FE-G19).
Result<Graph> parse(std::string_view text, const ParseOptions& options);

Result<TensorType> parse_type(text::Cursor& cursor, SymbolTable& symbols);
Result<AttributeValue> parse_attribute_value(text::Cursor& cursor);
/// `{name = value, ...}`, or nothing.
Result<std::vector<Attribute>> parse_attributes(text::Cursor& cursor);
/// The name of an op or an attribute: an identifier, or a string where it is none.
Result<std::string> parse_word(text::Cursor& cursor, std::string_view what);

}  // namespace ferrite::core::graph
