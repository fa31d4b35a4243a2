// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Parses types and attributes.
#include "core/ir/lexer/expression.h"
#include "core/ir/text/parse_graph.h"
#include "ferrite/counted.hpp"

namespace ferrite::core::graph {
namespace {

using text::Cursor;
using text::Token;
using text::TokenKind;

/// Reads items separated by commas between `open` and `close`.
template <class Item>
Result<void> parse_list(Cursor& cursor, std::string_view open, std::string_view close, Item item) {
  FE_CHECK(cursor.expect(open));
  if (cursor.accept(close)) return {};
  do FE_CHECK(item());
  while (cursor.accept(","));
  return cursor.expect(close);
}

Result<std::vector<int64_t>> parse_integers(Cursor& cursor, std::string_view what) {
  std::vector<int64_t> values;
  FE_CHECK(parse_list(cursor, "[", "]", [&]() -> Result<void> {
    FE_TRY(const int64_t value, cursor.expect_integer(what));
    values.push_back(value);
    return {};
  }));
  return values;
}

Result<DType> parse_dtype(Cursor& cursor) {
  if (cursor.is("dtype") && cursor.is("(", 1)) {
    cursor.next();
    cursor.next();
    const Error wrong = cursor.unexpected("an element type's code, from 0 to 65535");
    FE_TRY(const int64_t code, cursor.expect_integer("an element type's code"));
    if (code < 0 || code > UINT16_MAX) return wrong;
    FE_CHECK(cursor.expect(")"));
    return static_cast<DType>(code);
  }
  const DTypeInfo* info =
      cursor.peek().kind == TokenKind::identifier ? find_dtype(cursor.peek().text) : nullptr;
  if (!info) return cursor.unexpected("an element type such as f32 or i64");
  cursor.next();
  return info->dtype;
}

Result<uint32_t> parse_u32(Cursor& cursor, std::string_view what) {
  const Error wrong = cursor.unexpected(what);
  FE_TRY(const int64_t value, cursor.expect_integer(what));
  if (value < 0 || value > UINT32_MAX) return wrong;
  return static_cast<uint32_t>(value);
}

Result<void> parse_layout(Cursor& cursor, TensorType& type) {
  Layout& layout = type.layout;
  if (cursor.accept("strides")) {
    layout.kind = FE_LAYOUT_STRIDED;
    const Error wrong = cursor.unexpected(counted(type.rank(), "stride"));
    FE_TRY(layout.strides, parse_integers(cursor, "a stride in elements"));
    if (layout.strides.size() != type.rank()) return wrong;
    if (cursor.accept("offset")) {
      FE_TRY(layout.offset, cursor.expect_integer("an offset in elements"));
    }
    if (cursor.accept("align")) {
      FE_TRY(layout.alignment, parse_u32(cursor, "an alignment in bytes"));
    }
  } else if (cursor.accept("blocks")) {
    layout.kind = FE_LAYOUT_BLOCKED;
    FE_CHECK(parse_list(cursor, "[", "]", [&]() -> Result<void> {
      const Error wrong = cursor.unexpected("the number of a dimension and a size from 0 on");
      FE_TRY(const uint32_t dim, parse_u32(cursor, "the number of a dimension"));
      FE_CHECK(cursor.expect(":"));
      FE_TRY(const int64_t size, cursor.expect_integer("a block size"));
      if (dim >= type.rank() || size < 0) return wrong;
      layout.blocks.push_back({dim, size});
      return {};
    }));
  } else if (cursor.accept("opaque")) {
    layout.kind = FE_LAYOUT_OPAQUE;
    FE_TRY(layout.tag, cursor.expect_string("the layout's tag"));
  } else if (!cursor.is("device")) {
    return cursor.unexpected("'strides', 'blocks', 'opaque' or 'device'");
  }
  if (cursor.accept("device")) {
    FE_TRY(type.device, parse_u32(cursor, "a device number"));
  }
  return cursor.expect(">");
}

}  // namespace

Result<TensorType> parse_type(Cursor& cursor, SymbolTable& symbols) {
  constexpr size_t max_rank = 64;
  TensorType type;
  FE_TRY(type.dtype, parse_dtype(cursor));
  const auto symbol = [&](const Token& token) -> Result<index::Expr> {
    const auto found = token.kind == TokenKind::symbol ? symbols.find(token.text) : std::nullopt;
    if (found) return symbols.pool().symbol(*found);
    return at(cursor.where(token.position),
              error(FE_EINVALID, "FE-G17",
                    "'{}' is no symbol of this graph; declare it: symbol $name in [low, high]", token.text));
  };
  FE_CHECK(parse_list(cursor, "[", "]", [&]() -> Result<void> {
    const std::string place = cursor.where();
    if (type.rank() == max_rank) return cursor.unexpected("at most 64 dimensions");
    FE_TRY(const index::Expr expression, text::parse_expression(cursor, symbols.pool(), symbol));
    auto dim = symbols.dim(expression);
    if (!dim) return at(place, std::move(dim.error()));
    type.dims.push_back(*dim);
    return {};
  }));
  if (cursor.accept("<")) FE_CHECK(parse_layout(cursor, type));
  return type;
}

Result<AttributeValue> parse_attribute_value(Cursor& cursor) {
  const auto is_float = [&] {
    const size_t sign = cursor.is("-") || cursor.is("+");
    return cursor.peek(sign).kind == TokenKind::number || cursor.is("inf", sign) || cursor.is("nan", sign);
  };
  if ((cursor.is("floats") || cursor.is("strings")) && cursor.is("[", 1) && cursor.is("]", 2)) {
    const bool floats = cursor.is("floats");
    cursor.seek(cursor.offset() + 3);
    if (floats) return AttributeValue(std::vector<double>());
    return AttributeValue(std::vector<std::string>());
  }
  if (cursor.is("[")) {
    if (cursor.peek(1).kind == TokenKind::string) {
      std::vector<std::string> strings;
      FE_CHECK(parse_list(cursor, "[", "]", [&]() -> Result<void> {
        FE_TRY(strings.emplace_back(), cursor.expect_string("a string"));
        return {};
      }));
      return AttributeValue(std::move(strings));
    }
    // One float makes the whole list a list of floats.
    bool floats = false;
    std::vector<double> numbers;
    std::vector<int64_t> integers;
    const size_t begin = cursor.offset();
    FE_CHECK(parse_list(cursor, "[", "]", [&]() -> Result<void> {
      floats = floats || is_float();
      FE_TRY(numbers.emplace_back(), cursor.expect_number("a number"));
      return {};
    }));
    if (floats) return AttributeValue(std::move(numbers));
    cursor.seek(begin);
    FE_TRY(integers, parse_integers(cursor, "an integer"));
    return AttributeValue(std::move(integers));
  }
  if (cursor.peek().kind == TokenKind::string) return AttributeValue(std::string(cursor.next().text));
  if (cursor.accept("true")) return AttributeValue(true);
  if (cursor.accept("false")) return AttributeValue(false);
  if (is_float()) {
    FE_TRY(const double value, cursor.expect_number("a number"));
    return AttributeValue(value);
  }
  if (cursor.peek().kind == TokenKind::identifier) {
    FE_TRY(const DType dtype, parse_dtype(cursor));
    return AttributeValue(dtype);
  }
  FE_TRY(const int64_t value, cursor.expect_integer("an attribute's value"));
  return AttributeValue(value);
}

Result<std::string> parse_word(Cursor& cursor, std::string_view what) {
  const TokenKind kind = cursor.peek().kind;
  const bool quoted = kind == TokenKind::string && !cursor.peek().text.empty();
  if (kind != TokenKind::identifier && !quoted) return cursor.unexpected(what);
  return std::string(cursor.next().text);
}

Result<std::vector<Attribute>> parse_attributes(Cursor& cursor) {
  std::vector<Attribute> attributes;
  if (!cursor.is("{")) return attributes;
  FE_CHECK(parse_list(cursor, "{", "}", [&]() -> Result<void> {
    FE_TRY(std::string name, parse_word(cursor, "the name of an attribute"));
    FE_CHECK(cursor.expect("="));
    FE_TRY(AttributeValue value, parse_attribute_value(cursor));
    attributes.push_back({std::move(name), std::move(value)});
    return {};
  }));
  return attributes;
}

}  // namespace ferrite::core::graph
