// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Parses expressions by recursive descent, in order of precedence: else, or, and, not, comparisons, sums,
// products, functions of matched values.
#include <algorithm>
#include <array>

#include "core/ir/text/parse_graph.h"
#include "core/passes/rewrite/language/condition.h"
#include "core/support/suggest.h"

namespace ferrite::core::rewrite {
namespace {

using text::Cursor;
using text::Position;
using text::Token;
using text::TokenKind;
using Form = Expression::Kind;

/// The sort of an expression. A captured attribute has sort `any`, as its kind is known only in a match.
enum class Sort : uint8_t { any, boolean, number, dtype, string, list };

Sort sort_of(const Expression& e) {
  switch (e.kind) {
    case Form::attribute: return Sort::any;
    case Form::dtype:
    case Form::dtype_of: return Sort::dtype;
    case Form::string: return Sort::string;
    case Form::list:
    case Form::list_of:
    case Form::shape_of: return Sort::list;
    case Form::integer:
    case Form::number:
    case Form::dimension:
    case Form::rank_of:
    case Form::dim_of:
    case Form::elements_of:
    case Form::uses_of:
    case Form::value_of:
    case Form::side_rank_of:
    case Form::add:
    case Form::subtract:
    case Form::multiply:
    case Form::divide:
    case Form::negate: return Sort::number;
    case Form::otherwise: {
      const Sort first = sort_of(e.children[0]);
      return first == Sort::any ? sort_of(e.children[1]) : first;
    }
    default: return Sort::boolean;
  }
}

std::string_view name_of_sort(Sort sort) {
  switch (sort) {
    case Sort::any: return "an attribute";
    case Sort::boolean: return "true or false";
    case Sort::number: return "a number";
    case Sort::dtype: return "an element type";
    case Sort::string: return "a string";
    case Sort::list: return "a list";
  }
  return {};
}

struct Function {
  std::string_view name;
  Form kind;
};
constexpr auto functions = std::to_array<Function>({
    {"dtype", Form::dtype_of},
    {"rank", Form::rank_of},
    {"dim", Form::dim_of},
    {"shape", Form::shape_of},
    {"elements", Form::elements_of},
    {"uses", Form::uses_of},
    {"constant", Form::constant_of},
    {"value", Form::value_of},
    {"side_rank", Form::side_rank_of},
    {"predicate", Form::predicate},
});
struct Comparison {
  std::string_view sign;
  Form kind;
};
constexpr auto comparisons = std::to_array<Comparison>({
    {"==", Form::equal},
    {"!=", Form::not_equal},
    {"<", Form::less},
    {"<=", Form::less_equal},
    {">", Form::greater},
    {">=", Form::greater_equal},
});

class Parser {
 public:
  /// `predicates`: null if no predicate is allowed here. `expected`: for the error about an unknown word.
  Parser(Cursor& cursor, const NameScope& names, std::vector<std::string>* predicates,
         std::string_view expected)
      : cursor_(cursor), names_(names), predicates_(predicates), expected_(expected) {}

  Result<Expression> condition() {
    const Position place = cursor_.peek().position;
    FE_TRY(Expression result, disjunction());
    FE_CHECK(expect(result, Sort::boolean, place, "a condition"));
    return result;
  }

  /// Parses `value(%m) else 1 / value(%d) else 1.0`.
  Result<Expression> value() {
    const Position first = cursor_.peek().position;
    if (++depth_ > max_nesting) return too_large(first);
    FE_TRY(Expression result, disjunction());
    if (cursor_.is("else")) {
      const Position place = cursor_.next().position;
      FE_TRY(Expression right, value());
      const Sort a = sort_of(result), b = sort_of(right);
      if (a != b && a != Sort::any && b != Sort::any) {
        return fault(place, "FE-R10",
                     fmt::format("before 'else' stands {}, after it {}", name_of_sort(a), name_of_sort(b)));
      }
      FE_TRY(result, binary(Form::otherwise, place, std::move(result), std::move(right)));
    }
    --depth_;
    return result;
  }

  /// Whether the list at the cursor contains anything except numbers and strings.
  bool computed_list() const {
    for (size_t ahead = 1; !cursor_.is("]", ahead); ++ahead) {
      const Token& token = cursor_.peek(ahead);
      if (token.kind == TokenKind::end) return false;
      const bool plain = token.kind == TokenKind::integer || token.kind == TokenKind::number ||
                         token.kind == TokenKind::string || token.text == "," || token.text == "inf" ||
                         token.text == "nan" || token.text == "-" || token.text == "+";
      // nan(0x7fc00001) is a number and no function call.
      const bool payload = token.text == "(" && cursor_.is("nan", ahead - 1);
      if (payload) ahead += 2;
      if (!plain && !payload) return true;
    }
    return false;
  }

  /// Parses `[$a, 1]`; $a may be new if `binds` is not null.
  Result<Expression> list(NameScope* binds) {
    FE_TRY(Expression result, make(Form::list_of, cursor_.next().position));
    while (!cursor_.accept("]")) {
      if (!result.children.empty()) FE_CHECK(cursor_.expect(","));
      const Position place = cursor_.peek().position;
      if (binds && cursor_.peek().kind == TokenKind::symbol && (cursor_.is(",", 1) || cursor_.is("]", 1))) {
        FE_TRY(Expression item, make(Form::attribute, place));
        FE_TRY(item.index, binds->capture(cursor_.next()));
        result.children.push_back(std::move(item));
        continue;
      }
      FE_TRY(Expression item, value());
      if (const Sort sort = sort_of(item);
          sort != Sort::any && sort != Sort::number && sort != Sort::string) {
        return fault(place, "FE-R10",
                     fmt::format("a list has numbers or strings, this is {}", name_of_sort(sort)));
      }
      result.children.push_back(std::move(item));
    }
    return result;
  }

 private:
  Error fault(Position place, const char* code, std::string what) const {
    return {FE_EINVALID, code, std::move(what), cursor_.where(place)};
  }
  Error too_large(Position place) const {
    return fault(place, "FE-R15",
                 fmt::format("the condition is too large (at most {} operations, {} levels deep); split it, "
                             "or use a predicate",
                             max_terms, max_nesting));
  }
  Result<void> expect(const Expression& e, Sort wanted, Position place, std::string_view what) const {
    const Sort sort = sort_of(e);
    if (sort == wanted || sort == Sort::any) return {};
    return fault(place, "FE-R10",
                 fmt::format("{} is {}, this is {}", what, name_of_sort(wanted), name_of_sort(sort)));
  }

  Result<Expression> make(Form kind, Position place, std::vector<Expression> children = {}) {
    if (++size_ > max_terms) return too_large(place);
    Expression e;
    e.kind = kind;
    e.position = place;
    e.children = std::move(children);
    return e;
  }
  Result<Expression> binary(Form kind, Position place, Expression left, Expression right) {
    std::vector<Expression> children;
    children.push_back(std::move(left));
    children.push_back(std::move(right));
    return make(kind, place, std::move(children));
  }

  /// Parses operands of one sort joined by left-associative operators.
  template <class Next>
  Result<Expression> chain(Next next, Sort sort, std::initializer_list<Comparison> operators) {
    const Position first = cursor_.peek().position;
    FE_TRY(Expression result, next());
    for (;;) {
      const auto found =
          std::find_if(operators.begin(), operators.end(), [&](const auto& o) { return cursor_.is(o.sign); });
      if (found == operators.end()) return result;
      FE_CHECK(expect(result, sort, first, fmt::format("the operand before '{}'", found->sign)));
      const Position place = cursor_.next().position;
      const Position second = cursor_.peek().position;
      FE_TRY(Expression right, next());
      FE_CHECK(expect(right, sort, second, fmt::format("the operand after '{}'", found->sign)));
      FE_TRY(result, binary(found->kind, place, std::move(result), std::move(right)));
    }
  }

  Result<Expression> disjunction() {
    if (++depth_ > max_nesting) return too_large(cursor_.peek().position);
    auto result = chain([this] { return conjunction(); }, Sort::boolean, {{"or", Form::logical_or}});
    --depth_;
    return result;
  }
  Result<Expression> conjunction() {
    return chain([this] { return negation(); }, Sort::boolean, {{"and", Form::logical_and}});
  }
  Result<Expression> negation() {
    if (!cursor_.is("not")) return comparison();
    if (++depth_ > max_nesting) return too_large(cursor_.peek().position);
    const Position place = cursor_.next().position, inner = cursor_.peek().position;
    FE_TRY(Expression operand, negation());
    FE_CHECK(expect(operand, Sort::boolean, inner, "the operand after 'not'"));
    --depth_;
    std::vector<Expression> children;
    children.push_back(std::move(operand));
    return make(Form::logical_not, place, std::move(children));
  }

  Result<Expression> comparison() {
    FE_TRY(Expression left, sum());
    const auto found = std::find_if(comparisons.begin(), comparisons.end(),
                                    [&](const auto& c) { return cursor_.is(c.sign); });
    if (found == comparisons.end()) return left;
    const Position place = cursor_.next().position;
    FE_TRY(Expression right, sum());
    const Sort a = sort_of(left), b = sort_of(right);
    if (a != b && a != Sort::any && b != Sort::any) {
      return fault(place, "FE-R10",
                   fmt::format("{} cannot be compared with {}", name_of_sort(a), name_of_sort(b)));
    }
    if (found->kind != Form::equal && found->kind != Form::not_equal) {
      for (const Sort sort : {a, b}) {
        if (sort == Sort::number || sort == Sort::any) continue;
        return fault(
            place, "FE-R10",
            fmt::format("'{}' compares numbers, not {}; use == or !=", found->sign, name_of_sort(sort)));
      }
    }
    return binary(found->kind, place, std::move(left), std::move(right));
  }

  Result<Expression> sum() {
    return chain([this] { return product(); }, Sort::number, {{"+", Form::add}, {"-", Form::subtract}});
  }
  Result<Expression> product() {
    return chain([this] { return atom(); }, Sort::number, {{"*", Form::multiply}, {"/", Form::divide}});
  }

  Result<Expression> atom() {
    const Token& token = cursor_.peek();
    const Position place = token.position;
    const bool numbered =
        cursor_.is("nan") || (cursor_.is("dtype") && cursor_.peek(2).kind == TokenKind::integer);
    if (token.kind == TokenKind::identifier && cursor_.is("(", 1) && !numbered) return call();
    if (cursor_.is("[") && computed_list()) return list(nullptr);
    if (cursor_.accept("(")) {
      FE_TRY(Expression inner, value());
      FE_CHECK(cursor_.expect(")"));
      return inner;
    }
    if (token.kind == TokenKind::symbol) {
      FE_TRY(const uint32_t index, names_.attribute(cursor_.next()));
      FE_TRY(Expression result, make(Form::attribute, place));
      result.index = index;
      return result;
    }
    if (token.kind == TokenKind::identifier) {
      if (const auto dimension = names_.dimension(token.text)) {
        cursor_.next();
        FE_TRY(Expression result, make(Form::dimension, place));
        result.index = *dimension;
        return result;
      }
    }
    if (token.kind == TokenKind::value) {
      return fault(place, "FE-R10",
                   fmt::format("a value is no condition by itself; ask for its dtype(%{0}), rank(%{0}), "
                               "shape(%{0}), value(%{0}) ...",
                               token.text));
    }
    const bool literal_after_sign = cursor_.peek(1).kind == TokenKind::integer ||
                                    cursor_.peek(1).kind == TokenKind::number || cursor_.is("inf", 1) ||
                                    cursor_.is("nan", 1);
    if (cursor_.is("-") && !literal_after_sign) {
      if (++depth_ > max_nesting) return too_large(place);
      cursor_.next();
      const Position inner = cursor_.peek().position;
      FE_TRY(Expression operand, atom());
      FE_CHECK(expect(operand, Sort::number, inner, "the operand after '-'"));
      --depth_;
      std::vector<Expression> children;
      children.push_back(std::move(operand));
      return make(Form::negate, place, std::move(children));
    }
    return literal();
  }

  Result<Expression> literal() {
    const Token& token = cursor_.peek();
    const Position place = token.position;
    const bool word = token.kind == TokenKind::identifier;
    const bool starts = token.kind == TokenKind::integer || token.kind == TokenKind::number ||
                        token.kind == TokenKind::string || cursor_.is("[") || cursor_.is("-") ||
                        cursor_.is("+") || cursor_.is("true") || cursor_.is("false") || cursor_.is("inf") ||
                        cursor_.is("nan") ||
                        (word && (find_dtype(token.text) || token.text == "dtype" || token.text == "floats" ||
                                  token.text == "strings"));
    if (!starts) {
      Error error = cursor_.unexpected(expected_);
      if (word) {
        std::vector<std::string_view> names;
        for (const Function& function : functions) names.push_back(function.name);
        for (const DTypeInfo& info : dtype_table) names.push_back(info.name);
        error.text += did_you_mean(token.text, names);
      }
      return error;
    }
    FE_TRY(graph::AttributeValue value, graph::parse_attribute_value(cursor_));
    constexpr Form kinds[] = {Form::integer, Form::number, Form::string, Form::dtype,
                              Form::list,    Form::list,   Form::list,   Form::boolean};
    FE_TRY(Expression result, make(kinds[value.index()], place));
    result.literal = std::move(value);
    return result;
  }

  Result<Expression> call() {
    const Token name = cursor_.next();
    const auto found =
        std::find_if(functions.begin(), functions.end(), [&](const auto& f) { return f.name == name.text; });
    if (found == functions.end()) {
      std::vector<std::string_view> names;
      for (const Function& function : functions) names.push_back(function.name);
      return fault(name.position, "FE-R11",
                   fmt::format("there is no function '{}'{}", name.text, did_you_mean(name.text, names)));
    }
    FE_TRY(Expression result, make(found->kind, name.position));
    FE_CHECK(cursor_.expect("("));
    if (found->kind == Form::predicate && !predicates_)
      return fault(name.position, "FE-R10", "a predicate is a condition, no part of an attribute");
    if (found->kind == Form::predicate) {
      FE_TRY(std::string predicate, cursor_.expect_string("the predicate's name in quotes"));
      const auto known = std::find(predicates_->begin(), predicates_->end(), predicate);
      result.index = static_cast<uint32_t>(known - predicates_->begin());
      if (known == predicates_->end()) predicates_->push_back(std::move(predicate));
    } else if (found->kind == Form::side_rank_of) {
      FE_TRY(const Token region, cursor_.expect(TokenKind::value, "a region, as %f"));
      FE_TRY(result.index, names_.region(region));
    } else {
      if (cursor_.peek().kind != TokenKind::value) return cursor_.unexpected("a matched value, as %x");
      FE_TRY(result.value, names_.value(cursor_.next()));
      if (found->kind == Form::dim_of) {
        FE_CHECK(cursor_.expect(","));
        const Position place = cursor_.peek().position;
        FE_TRY(Expression index, disjunction());
        FE_CHECK(expect(index, Sort::number, place, "the dimension"));
        result.children.push_back(std::move(index));
      }
    }
    FE_CHECK(cursor_.expect(")"));
    return result;
  }

  Cursor& cursor_;
  const NameScope& names_;
  std::vector<std::string>* predicates_;
  std::string_view expected_;
  size_t size_ = 0, depth_ = 0;
};

}  // namespace

Result<Expression> parse_condition(Cursor& cursor, const NameScope& names,
                                   std::vector<std::string>& predicates) {
  return Parser(cursor, names, &predicates, "a condition, as dtype(%x) == f32").condition();
}

Result<void> parse_attribute(Cursor& cursor, NameScope& names, bool binds, AttributeTerm& attribute) {
  Parser parser(
      cursor, names, nullptr,
      "an attribute's value: a literal, $name, a list, or an expression, as value(%c) or rank(%x) - 1");
  const bool alone = cursor.is(",", 1) || cursor.is("}", 1);
  if (cursor.peek().kind == TokenKind::symbol && alone) {
    const Token token = cursor.next();
    FE_TRY(attribute.capture, binds ? names.capture(token) : names.attribute(token));
    return {};
  }
  const bool list = cursor.is("[") && parser.computed_list();
  FE_TRY(Expression expression, list ? parser.list(binds ? &names : nullptr) : parser.value());
  if (expression.kind <= Form::list) {
    attribute.literal = std::move(expression.literal);
  } else {
    attribute.computed = std::move(expression);
  }
  return {};
}

bool is_function(std::string_view name) {
  return std::any_of(functions.begin(), functions.end(), [&](const auto& f) { return f.name == name; });
}

}  // namespace ferrite::core::rewrite
