// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The lexer of all text forms (docs/text.md), and the cursor with which their parsers read tokens.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/support/error.h"

namespace ferrite::core::text {

enum class TokenKind : uint8_t {
  end,          ///< after the last token
  identifier,   ///< letter or `_`, then letters, digits, `_` and `.`: `acme.fma`, `inf`, `nan`, `_`
  integer,      ///< `12`, `0x1F`; no sign
  number,       ///< `1.5`, `1e-3`, `0x1.8p-3`; no sign
  string,       ///< "…" with \" \\ \n \t \xHH
  value,        ///< %v
  buffer,       ///< @b, @b.2
  symbol,       ///< $n
  weight,       ///< #w
  punctuation,  ///< ( ) [ ] { } < > , : ; = + - * / % ! | & ? . ~ ^ @ $ # and -> == != <= >= && || ..
};

struct Position {
  uint32_t line = 1, column = 1;  ///< both start at 1; columns count bytes
};

/// A token. `text` is the name without its sigil, a string's contents with escapes resolved, or the token's
/// spelling.
struct Token {
  TokenKind kind = TokenKind::end;
  Position position;
  std::string_view text;
  bool quoted = false;   ///< a name after a sigil is written as a string: %"0" is a name, %0 a number
  uint64_t integer = 0;  ///< of integer tokens
  double number = 0;     ///< of integer and number tokens
};

/// The tokens of one text. `name` is the file's name, for errors.
class TokenList {
 public:
  /// FE-G01 with the position for a byte that begins no token, an unfinished string or a number out of range.
  static Result<TokenList> read(std::string_view text, std::string name);

  const std::vector<Token>& tokens() const { return tokens_; }  ///< the last one is `end`
  const std::string& name() const { return name_; }

 private:
  std::string name_;
  std::unique_ptr<std::string> source_;  // tokens point into it
  // and into these: strings with their escapes resolved
  std::vector<std::unique_ptr<std::string>> unescaped_;
  std::vector<Token> tokens_;
};

/// Reads a TokenList from front to back. Errors are FE-G02 at file:line:column, unless the caller changes
/// them.
class Cursor {
 public:
  explicit Cursor(const TokenList& list) : list_(&list) {}

  const Token& peek(size_t ahead = 0) const;
  const Token& next();
  bool at_end() const { return peek().kind == TokenKind::end; }
  size_t offset() const { return offset_; }
  void seek(size_t offset) { offset_ = offset; }

  /// an identifier or punctuation with this spelling
  bool is(std::string_view spelling, size_t ahead = 0) const;
  bool accept(std::string_view spelling);  ///< and consumes it
  Result<void> expect(std::string_view spelling);
  Result<Token> expect(TokenKind kind, std::string_view what);
  Result<std::string> expect_string(std::string_view what);
  Result<int64_t> expect_integer(std::string_view what);  ///< with an optional sign
  Result<double> expect_number(std::string_view what);  ///< integer, float, inf or nan, with an optional sign
  Result<void> expect_end();

  /// "file:line:column" of the next token, or of the given position.
  std::string where() const { return where(peek().position); }
  std::string where(Position position) const;
  /// FE-G02 "expected WHAT, found TOKEN" at the next token.
  Error unexpected(std::string_view what) const;

 private:
  const TokenList* list_;
  size_t offset_ = 0;
};

/// A string literal as the text forms write it. Names that are not plain identifiers (or are all digits) are
/// quoted: %"a b".
std::string quote(std::string_view text);
std::string sigil_name(char sigil, std::string_view name);
/// The shortest decimal that reads back as the same double. It always has a `.`, an exponent, inf or nan, so
/// that it does not read as an integer. A NaN other than the positive quiet one prints as nan(0xBITS).
std::string format_number(double value);

}  // namespace ferrite::core::text
