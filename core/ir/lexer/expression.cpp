// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/ir/lexer/expression.h"

namespace ferrite::core::text {
namespace {

using index::Expr;
using index::Pool;
using index::Symbol;
using Name = std::function<std::string(Symbol)>;

/// The precedence of the context around an expression.
enum Level : int { sum_level, factor_level, atom_level };

struct Printer {
  const Pool& pool;
  const Name& name;
  int level;

  std::string text(Expr e, int inner) const { return pool.visit(e, Printer{pool, name, inner}); }
  std::string wrap(std::string text, int needed) const { return level > needed ? "(" + text + ")" : text; }

  std::string constant(int64_t value) const {
    return wrap(std::to_string(value), value < 0 ? sum_level : atom_level);
  }
  std::string symbol(Symbol s) const { return name(s); }
  std::string sum(int64_t constant, std::span<const index::Term> span) const {
    const std::vector<index::Term> terms(span.begin(), span.end());
    std::string result;
    const auto join = [&](int64_t value, const std::string& rest) {
      const bool minus = value < 0 && value != INT64_MIN && !result.empty();
      if (!result.empty()) result += minus ? " - " : " + ";
      const int64_t shown = minus ? -value : value;
      if (rest.empty()) {
        result += std::to_string(shown);
      } else {
        result += shown == 1 ? rest : std::to_string(shown) + "*" + rest;
      }
    };
    for (const index::Term& term : terms) {
      join(term.coefficient, text(term.expr, term.coefficient == 1 ? factor_level : atom_level));
    }
    if (constant != 0) join(constant, "");
    return wrap(result,
                terms.size() == 1 && constant == 0 && terms[0].coefficient > 0 ? factor_level : sum_level);
  }
  std::string infix(Expr a, Expr b, const char* between) const {
    return wrap(text(a, factor_level) + between + text(b, atom_level), factor_level);
  }
  std::string call(const char* function, Expr a, Expr b) const {
    return function + ("(" + text(a, sum_level)) + ", " + text(b, sum_level) + ")";
  }
  std::string mul(Expr a, Expr b) const { return infix(a, b, "*"); }
  std::string floordiv(Expr a, Expr b) const { return infix(a, b, " div "); }
  std::string mod(Expr a, Expr b) const { return infix(a, b, " mod "); }
  std::string min(Expr a, Expr b) const { return call("min", a, b); }
  std::string max(Expr a, Expr b) const { return call("max", a, b); }
};

class Parser {
 public:
  Parser(Cursor& cursor, Pool& pool, const std::function<Result<Expr>(const Token&)>& symbol)
      : cursor_(cursor), pool_(pool), symbol_(symbol) {}

  Result<Expr> sum() {
    if (++depth_ > max_depth) return cursor_.unexpected("an expression that is nested less deeply");
    FE_TRY(Expr result, factor());
    for (;;) {
      const bool minus = cursor_.is("-");
      if (!minus && !cursor_.is("+")) break;
      cursor_.next();
      FE_TRY(const Expr right, factor());
      result = minus ? pool_.sub(result, right) : pool_.add(result, right);
    }
    --depth_;
    return result;
  }

 private:
  static constexpr int max_depth = 200;

  Result<Expr> factor() {
    FE_TRY(Expr result, atom());
    for (;;) {
      if (cursor_.accept("*")) {
        FE_TRY(const Expr right, atom());
        result = pool_.mul(result, right);
      } else if (cursor_.is("div") || cursor_.is("mod")) {
        const bool divide = cursor_.is("div");
        cursor_.next();
        const Position position = cursor_.peek().position;
        FE_TRY(const Expr right, atom());
        const index::Range range = pool_.range(right);
        if (range.lo <= 0 && range.hi >= 0) {
          return at(cursor_.where(position),
                    error(FE_EINVALID, "FE-G02", "the divisor may be zero: its values are in [{}, {}]",
                          range.lo, range.hi));
        }
        result = divide ? pool_.floordiv(result, right) : pool_.mod(result, right);
      } else {
        return result;
      }
    }
  }

  Result<Expr> atom() {
    if (cursor_.is("-") && cursor_.peek(1).kind != TokenKind::integer) {
      if (++depth_ > max_depth) return cursor_.unexpected("an expression that is nested less deeply");
      cursor_.next();
      FE_TRY(const Expr operand, atom());
      --depth_;
      return pool_.neg(operand);
    }
    if (cursor_.accept("(")) {
      FE_TRY(const Expr inner, sum());
      FE_CHECK(cursor_.expect(")"));
      return inner;
    }
    if ((cursor_.is("min") || cursor_.is("max")) && cursor_.is("(", 1)) {
      const bool least = cursor_.is("min");
      cursor_.next();
      cursor_.next();
      FE_TRY(const Expr a, sum());
      FE_CHECK(cursor_.expect(","));
      FE_TRY(const Expr b, sum());
      FE_CHECK(cursor_.expect(")"));
      return least ? pool_.min(a, b) : pool_.max(a, b);
    }
    switch (cursor_.peek().kind) {
      case TokenKind::identifier:
      case TokenKind::symbol:
      case TokenKind::value:
      case TokenKind::buffer:
      case TokenKind::weight: return symbol_(cursor_.next());
      default: break;
    }
    FE_TRY(const int64_t value, cursor_.expect_integer("an index expression"));
    return pool_.constant(value);
  }

  Cursor& cursor_;
  Pool& pool_;
  const std::function<Result<Expr>(const Token&)>& symbol_;
  int depth_ = 0;
};

}  // namespace

std::string print_expression(const Pool& pool, Expr expression, const Name& name) {
  return pool.visit(expression, Printer{pool, name, sum_level});
}

Result<Expr> parse_expression(Cursor& cursor, Pool& pool,
                              const std::function<Result<Expr>(const Token&)>& symbol) {
  return Parser(cursor, pool, symbol).sum();
}

}  // namespace ferrite::core::text
