// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/ir/lexer/lexer.h"

#include <array>
#include <bit>
#include <charconv>
#include <cmath>

namespace ferrite::core::text {
namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
bool is_word(char c) { return is_letter(c) || is_digit(c); }
int hex_value(char c) { return is_digit(c) ? c - '0' : (c | 0x20) - 'a' + 10; }

constexpr auto long_punctuation =
    std::to_array<std::string_view>({"->", "==", "!=", "<=", ">=", "&&", "||", ".."});
constexpr std::string_view punctuation = "()[]{}<>,:;=+-*/%!|&?.~^@$#";

class Lexer {
 public:
  Lexer(std::string_view source, const std::string& name,
        std::vector<std::unique_ptr<std::string>>& unescaped)
      : source_(source), name_(name), unescaped_(unescaped) {}

  Result<std::vector<Token>> read() {
    std::vector<Token> tokens;
    for (;;) {
      skip_space();
      Token token;
      token.position = position(offset_);
      if (offset_ == source_.size()) {
        tokens.push_back(token);
        return tokens;
      }
      FE_CHECK(read_token(token));
      tokens.push_back(token);
    }
  }

 private:
  char at(size_t offset) const { return offset < source_.size() ? source_[offset] : '\0'; }
  Position position(size_t offset) const { return {line_, static_cast<uint32_t>(offset - line_start_ + 1)}; }
  Error fault(size_t offset, std::string what) const {
    const Position place = position(offset);
    return {FE_EINVALID, "FE-G01", std::move(what), fmt::format("{}:{}:{}", name_, place.line, place.column)};
  }

  void skip_space() {
    while (offset_ < source_.size()) {
      const char c = source_[offset_];
      if (c == '\n') {
        ++line_;
        line_start_ = ++offset_;
      } else if (c == ' ' || c == '\t' || c == '\r') {
        ++offset_;
      } else if (c == '/' && at(offset_ + 1) == '/') {
        while (offset_ < source_.size() && source_[offset_] != '\n') ++offset_;
      } else {
        return;
      }
    }
  }

  Result<void> read_token(Token& token) {
    const char c = source_[offset_];
    if (is_letter(c)) {
      token.kind = TokenKind::identifier;
      token.text = read_name();
      return {};
    }
    if (is_digit(c)) return read_number(token);
    if (c == '"') {
      token.kind = TokenKind::string;
      return read_string(token);
    }
    // These characters are also operators (`%` in index expressions): a sigil has its name right after it.
    if (c == '%' || c == '@' || c == '$' || c == '#') {
      const char after = at(offset_ + 1);
      if (is_word(after) || after == '"') {
        token.kind = c == '%'   ? TokenKind::value
                     : c == '@' ? TokenKind::buffer
                     : c == '$' ? TokenKind::symbol
                                : TokenKind::weight;
        ++offset_;
        token.quoted = after == '"';
        if (token.quoted) return read_string(token);
        token.text = read_name();
        return {};
      }
    }
    token.kind = TokenKind::punctuation;
    // The longest token wins: `->` is not `-` and `>`.
    for (std::string_view spelling : long_punctuation) {
      if (source_.substr(offset_, spelling.size()) == spelling) return take(token, spelling.size());
    }
    if (punctuation.find(c) != std::string_view::npos) return take(token, 1);
    return fault(offset_, fmt::format("byte 0x{:02x} starts no token", static_cast<unsigned char>(c)));
  }

  Result<void> take(Token& token, size_t size) {
    token.text = source_.substr(offset_, size);
    offset_ += size;
    return {};
  }

  /// Reads word characters with single dots between them.
  std::string_view read_name() {
    const size_t begin = offset_;
    while (is_word(at(offset_)) || (at(offset_) == '.' && is_word(at(offset_ + 1)))) ++offset_;
    return source_.substr(begin, offset_ - begin);
  }

  Result<void> read_number(Token& token) {
    const size_t begin = offset_;
    // Without a digit after it, `0x` is the number 0 that runs into a name: an error below.
    const bool hex = at(offset_) == '0' && (at(offset_ + 1) | 0x20) == 'x' && is_hex(at(offset_ + 2));
    if (hex) offset_ += 2;
    const size_t digits = offset_;
    bool integer = true;
    const auto digit = [&](char c) { return hex ? is_hex(c) : is_digit(c); };
    while (digit(at(offset_))) ++offset_;
    // A dot without digits after it is no part of the number: `0..8` is a range.
    if (at(offset_) == '.' && digit(at(offset_ + 1))) {
      integer = false;
      ++offset_;
      while (digit(at(offset_))) ++offset_;
    }
    if ((at(offset_) | 0x20) == (hex ? 'p' : 'e')) {
      const size_t sign = at(offset_ + 1) == '-' || at(offset_ + 1) == '+';
      if (is_digit(at(offset_ + 1 + sign))) {
        integer = false;
        offset_ += 1 + sign;
        while (is_digit(at(offset_))) ++offset_;
      }
    }
    token.text = source_.substr(begin, offset_ - begin);
    // `2x` would otherwise read as two tokens.
    if (is_word(at(offset_))) return fault(offset_, fmt::format("'{}' runs into a name", token.text));
    const char *first = source_.data() + digits, *last = source_.data() + offset_;
    if (integer) {
      token.kind = TokenKind::integer;
      if (std::from_chars(first, last, token.integer, hex ? 16 : 10).ec != std::errc()) {
        return fault(begin, fmt::format("integer {} does not fit 64 bits", token.text));
      }
      token.number = static_cast<double>(token.integer);
      return {};
    }
    token.kind = TokenKind::number;
    const auto format = hex ? std::chars_format::hex : std::chars_format::general;
    const auto [end, status] = std::from_chars(first, last, token.number, format);
    if (status != std::errc() || end != last) {
      return fault(begin, fmt::format("number {} does not fit a double", token.text));
    }
    return {};
  }

  Result<void> read_string(Token& token) {
    const size_t begin = ++offset_;
    std::string* text = nullptr;
    for (;; ++offset_) {
      const char c = at(offset_);
      if (offset_ >= source_.size() || c == '\n') return fault(begin - 1, "string without its closing quote");
      if (c == '"') break;
      if (c != '\\') {
        if (text) *text += c;
        continue;
      }
      // Most strings have no escapes: those are views into the source, without a copy.
      if (!text) {
        text = unescaped_.emplace_back(std::make_unique<std::string>(source_.substr(begin, offset_ - begin)))
                   .get();
      }
      switch (at(++offset_)) {
        case '"': *text += '"'; break;
        case '\\': *text += '\\'; break;
        case 'n': *text += '\n'; break;
        case 't': *text += '\t'; break;
        case 'x':
          if (!is_hex(at(offset_ + 1)) || !is_hex(at(offset_ + 2))) {
            return fault(offset_, "\\x needs two hex digits");
          }
          *text += static_cast<char>(hex_value(at(offset_ + 1)) * 16 + hex_value(at(offset_ + 2)));
          offset_ += 2;
          break;
        default: return fault(offset_, "unknown escape; known are \\\" \\\\ \\n \\t \\xHH");
      }
    }
    token.text = text ? std::string_view(*text) : source_.substr(begin, offset_ - begin);
    ++offset_;
    return {};
  }

  std::string_view source_;
  const std::string& name_;
  std::vector<std::unique_ptr<std::string>>& unescaped_;
  size_t offset_ = 0, line_start_ = 0;
  uint32_t line_ = 1;
};

std::string describe(const Token& token) {
  const auto name = [&](char sigil) {
    return sigil + (token.quoted ? quote(token.text) : std::string(token.text));
  };
  switch (token.kind) {
    case TokenKind::end: return "the end of the text";
    case TokenKind::string: return "the string " + quote(token.text);
    case TokenKind::value: return name('%');
    case TokenKind::buffer: return name('@');
    case TokenKind::symbol: return name('$');
    case TokenKind::weight: return name('#');
    default: return fmt::format("'{}'", token.text);
  }
}

}  // namespace

Result<TokenList> TokenList::read(std::string_view text, std::string name) {
  TokenList list;
  list.name_ = std::move(name);
  // On the heap, so that the views of the tokens survive a move of the list.
  list.source_ = std::make_unique<std::string>(text);
  FE_TRY(list.tokens_, Lexer(*list.source_, list.name_, list.unescaped_).read());
  return list;
}

const Token& Cursor::peek(size_t ahead) const {
  const auto& tokens = list_->tokens();
  // The last token is the end, which repeats for ever: a parser needs no bounds checks.
  return offset_ + ahead < tokens.size() ? tokens[offset_ + ahead] : tokens.back();
}

const Token& Cursor::next() {
  const Token& token = peek();
  if (token.kind != TokenKind::end) ++offset_;
  return token;
}

bool Cursor::is(std::string_view spelling, size_t ahead) const {
  const Token& token = peek(ahead);
  return (token.kind == TokenKind::identifier || token.kind == TokenKind::punctuation) &&
         token.text == spelling;
}

bool Cursor::accept(std::string_view spelling) {
  if (!is(spelling)) return false;
  next();
  return true;
}

Result<void> Cursor::expect(std::string_view spelling) {
  if (!accept(spelling)) return unexpected(fmt::format("'{}'", spelling));
  return {};
}

Result<Token> Cursor::expect(TokenKind kind, std::string_view what) {
  if (peek().kind != kind) return unexpected(what);
  return next();
}

Result<std::string> Cursor::expect_string(std::string_view what) {
  FE_TRY(const Token token, expect(TokenKind::string, what));
  return std::string(token.text);
}

Result<int64_t> Cursor::expect_integer(std::string_view what) {
  const size_t sign = is("-") || is("+");
  const bool negative = is("-");
  const Token& token = peek(sign);
  if (token.kind != TokenKind::integer) return unexpected(what);
  // The least integer has no positive counterpart, so the sign counts for the limit.
  if (token.integer > uint64_t{INT64_MAX} + negative) {
    return at(where(token.position), error(FE_EINVALID, "FE-G01", "integer {}{} does not fit signed 64 bits",
                                           negative ? "-" : "", token.text));
  }
  offset_ += sign + 1;
  // Negated without sign, which the least integer needs.
  return static_cast<int64_t>(negative ? 0 - token.integer : token.integer);
}

Result<double> Cursor::expect_number(std::string_view what) {
  const size_t sign = is("-") || is("+");
  const double factor = is("-") ? -1.0 : 1.0;
  const Token& token = peek(sign);
  if (token.kind == TokenKind::integer || token.kind == TokenKind::number) {
    offset_ += sign + 1;
    return factor * token.number;
  }
  if (is("inf", sign)) {
    offset_ += sign + 1;
    return factor * HUGE_VAL;
  }
  if (is("nan", sign)) {
    offset_ += sign + 1;
    if (is("(") && peek(1).kind == TokenKind::integer && is(")", 2)) {
      const auto value = std::bit_cast<double>(peek(1).integer);
      if (!std::isnan(value)) return unexpected("the bits of a NaN");
      offset_ += 3;
      return value;
    }
    // One NaN on every machine; NAN leaves its bits to the platform.
    return std::bit_cast<double>(uint64_t{0x7ff8000000000000});
  }
  return unexpected(what);
}

Result<void> Cursor::expect_end() {
  if (!at_end()) return unexpected("the end of the text");
  return {};
}

std::string Cursor::where(Position position) const {
  return fmt::format("{}:{}:{}", list_->name(), position.line, position.column);
}

Error Cursor::unexpected(std::string_view what) const {
  return {FE_EINVALID, "FE-G02", fmt::format("expected {}, found {}", what, describe(peek())), where()};
}

std::string quote(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (c == '\n') {
      result += "\\n";
    } else if (c == '\t') {
      result += "\\t";
      // Bytes from 0x80 on are UTF-8 and stay readable.
    } else if (byte < 0x20 || byte == 0x7f) {
      result += fmt::format("\\x{:02x}", byte);
    } else {
      result += c;
    }
  }
  return result + '"';
}

std::string sigil_name(char sigil, std::string_view name) {
  bool plain = !name.empty() && name.front() != '.' && name.back() != '.', number = true;
  for (size_t k = 0; k < name.size(); ++k) {
    plain = plain && (is_word(name[k]) || (name[k] == '.' && name[k - 1] != '.'));
    number = number && is_digit(name[k]);
  }
  // Unquoted digits are numbers of unnamed values, so a name of digits has quotes.
  return sigil + (plain && !number ? std::string(name) : quote(name));
}

std::string format_number(double value) {
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  if (std::isnan(value)) {
    const auto bits = std::bit_cast<uint64_t>(value);
    return bits == 0x7ff8000000000000 ? "nan" : fmt::format("nan(0x{:x})", bits);
  }
  std::array<char, 32> buffer;
  // The shortest text that reads back as the same number.
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
  std::string text(buffer.data(), end);
  // Without a dot it would read back as an integer.
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

}  // namespace ferrite::core::text
