// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/passes/rewrite/language/parse_rules.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>

#include "core/ir/stages.h"
#include "core/ir/text/parse_graph.h"
#include "core/passes/rewrite/language/condition.h"
#include "core/passes/rewrite/language/print_rules.h"
#include "core/passes/rewrite/language/structure.h"
#include "core/support/suggest.h"

namespace ferrite::core::rewrite {
namespace {

using text::Cursor;
using text::Position;
using text::Token;
using text::TokenKind;
using Kind = Operand::Kind;

/// Parses one rule, from `rule` to its closing brace.
class RuleParser final : public NameScope {
 public:
  RuleParser(Cursor& cursor, const std::string& file) : cursor_(cursor) { rule_.file = file; }

  Result<Rule> read() {
    FE_CHECK(cursor_.expect("rule"));
    rule_.position = cursor_.peek().position;
    FE_TRY(rule_.name, graph::parse_word(cursor_, "the rule's name, as acme.mul_add"));
    FE_CHECK(cursor_.expect("at"));
    const Position phase = cursor_.peek().position;
    FE_TRY(rule_.phase, graph::parse_word(cursor_, "the phase that the rule is for"));
    if (std::find(graph_phase_names.begin(), graph_phase_names.end(), rule_.phase) ==
        graph_phase_names.end()) {
      return fault(
          phase, "FE-R02",
          fmt::format("rules are for no phase '{}'{} (they are for {})", rule_.phase,
                      did_you_mean(rule_.phase, graph_phase_names), fmt::join(graph_phase_names, ", ")));
    }
    FE_CHECK(cursor_.expect("{"));
    FE_CHECK(match());
    if (cursor_.accept("where")) FE_CHECK(where());
    FE_CHECK(yield());
    FE_CHECK(cursor_.expect("}"));
    return std::move(rule_);
  }

  Result<Operand> value(const Token& token) const override {
    const auto found = matched_.find(token.text);
    if (found == matched_.end()) return unknown_value(token);
    return found->second;
  }
  Result<uint32_t> attribute(const Token& token) const override {
    const auto found = std::find(rule_.attributes.begin(), rule_.attributes.end(), token.text);
    if (found == rule_.attributes.end()) {
      const std::vector<std::string_view> names(rule_.attributes.begin(), rule_.attributes.end());
      return fault(
          token.position, "FE-R07",
          fmt::format("the match captures no attribute ${}{}", token.text, did_you_mean(token.text, names)));
    }
    return static_cast<uint32_t>(found - rule_.attributes.begin());
  }
  Result<uint32_t> capture(const Token& token) override {
    const auto known = std::find(rule_.attributes.begin(), rule_.attributes.end(), token.text);
    if (known == rule_.attributes.end()) rule_.attributes.emplace_back(token.text);
    return static_cast<uint32_t>(std::find(rule_.attributes.begin(), rule_.attributes.end(), token.text) -
                                 rule_.attributes.begin());
  }
  Result<uint32_t> region(const Token& token) const override {
    if (const auto found = find_region(token.text)) return *found;
    std::vector<std::string_view> names;
    for (const Region& region : rule_.regions) names.push_back(region.name);
    return fault(token.position, "FE-R07",
                 fmt::format("the match has no region %{}{}", token.text, did_you_mean(token.text, names)));
  }
  std::optional<uint32_t> dimension(std::string_view name) const override {
    const auto found = std::find(rule_.dims.begin(), rule_.dims.end(), name);
    if (found == rule_.dims.end()) return std::nullopt;
    return static_cast<uint32_t>(found - rule_.dims.begin());
  }

 private:
  Error fault(Position place, const char* code, std::string what) const {
    return {FE_EINVALID, code, std::move(what), cursor_.where(place)};
  }
  Error unknown_value(const Token& token) const {
    std::vector<std::string_view> names;
    for (const auto& [name, operand] : matched_) names.push_back(name);
    for (const auto& [name, operand] : made_) names.push_back(name);
    return fault(token.position, "FE-R07",
                 fmt::format("the match has no value %{}{}", token.text, did_you_mean(token.text, names)));
  }

  std::optional<uint32_t> find_region(std::string_view name) const {
    const auto found = std::find_if(rule_.regions.begin(), rule_.regions.end(),
                                    [&](const Region& region) { return region.name == name; });
    if (found == rule_.regions.end()) return std::nullopt;
    return static_cast<uint32_t>(found - rule_.regions.begin());
  }
  /// Rejects a region's name in the position of a value.
  Result<void> expect_value(const Token& token) const {
    if (!find_region(token.text)) return {};
    return fault(token.position, "FE-R07",
                 fmt::format("%{0} is a region, not a value; apply it, as %p = %{0}(%x)", token.text));
  }

  // Parses match { %m = mul(%x, %y) once   %r = add(%m, %z) }.

  Result<void> match() {
    FE_CHECK(cursor_.expect("match"));
    FE_CHECK(cursor_.expect("{"));
    const Position place = cursor_.peek().position;
    while (!cursor_.accept("}")) {
      if (rule_.terms.size() + rule_.regions.size() >= max_terms) return too_large(cursor_.peek().position);
      if (cursor_.is("region")) {
        FE_CHECK(declaration());
        continue;
      }
      FE_CHECK(statement());
    }
    if (rule_.terms.empty())
      return fault(place, "FE-R01", "the match is empty; it needs a term, as %r = add(%x, %y)");
    return find_roots(rule_);
  }

  /// Parses `%a, %b = op(…)` or `%a = op(…) | %x | 0.5`.
  Result<void> statement() {
    FE_TRY(const std::vector<Token> names, results());
    const Position place = cursor_.peek().position;
    FE_TRY(Operand first, match_operand());
    if (cursor_.is("|")) {
      if (names.size() != 1)
        return fault(names[1].position, "FE-R08",
                     "alternatives have one name, which stands for each of them");
      FE_TRY(const Operand choice, alternatives(first, place));
      rule_.choices[choice.index].name = names[0].text;
      return name(names[0], choice);
    }
    const bool term = first.kind == Kind::matched && rule_.terms[first.index].results[0].empty();
    if (!term) {
      return fault(
          place, "FE-R01",
          "expected an op, as add(%x, %y), or alternatives, as add(%x, %y) | %x; a value has one name");
    }
    rule_.terms[first.index].results.clear();
    for (first.result = 0; first.result < names.size(); ++first.result) {
      rule_.terms[first.index].results.emplace_back(names[first.result].text);
      FE_CHECK(name(names[first.result], first));
    }
    return {};
  }

  Result<void> name(const Token& token, const Operand& operand) {
    if (!find_region(token.text) && matched_.try_emplace(std::string(token.text), operand).second) return {};
    return fault(token.position, "FE-R08",
                 fmt::format("%{} is already a name; a term goes before those that read it, and each name is "
                             "given once",
                             token.text));
  }

  /// Parses `| op(…) | %x | 0.5`, after the first alternative.
  Result<Operand> alternatives(const Operand& first, Position place) {
    Choice choice;
    choice.position = place;
    choice.ways.push_back(first);
    while (cursor_.accept("|")) {
      FE_TRY(choice.ways.emplace_back(), match_operand());
      if (++operands_ > max_operands) return too_large(cursor_.peek().position);
    }
    choice.terms_before = static_cast<uint32_t>(rule_.terms.size());
    Operand operand;
    operand.kind = Kind::choice;
    operand.index = static_cast<uint32_t>(rule_.choices.size());
    operand.position = place;
    rule_.choices.push_back(std::move(choice));
    return operand;
  }

  /// Parses `region %f: pointwise over [b, h, 64, _]`.
  Result<void> declaration() {
    cursor_.next();
    Region region;
    region.position = cursor_.peek().position;
    FE_TRY(const Token name, cursor_.expect(TokenKind::value, "the region's name, as %f"));
    if (find_region(name.text) || matched_.contains(name.text))
      return fault(name.position, "FE-R08", fmt::format("%{} is already a name", name.text));
    region.name = name.text;
    FE_CHECK(cursor_.expect(":"));
    FE_CHECK(cursor_.expect("pointwise"));
    if (cursor_.accept("over")) {
      FE_TRY(region.over, region_dims());
    }
    rule_.regions.push_back(std::move(region));
    return {};
  }

  Result<std::vector<RegionDim>> region_dims() {
    std::vector<RegionDim> dims;
    FE_CHECK(cursor_.expect("["));
    while (!cursor_.accept("]")) {
      if (!dims.empty()) FE_CHECK(cursor_.expect(","));
      if (dims.size() == max_terms) return too_large(cursor_.peek().position);
      RegionDim& dim = dims.emplace_back();
      if (cursor_.accept("_")) continue;
      const Token& token = cursor_.peek();
      if (token.kind == TokenKind::integer) {
        dim.kind = RegionDim::Kind::size;
        FE_TRY(dim.size, cursor_.expect_integer("a size"));
        continue;
      }
      // Conditions read these names, too, where these words have another meaning.
      constexpr auto words =
          std::to_array<std::string_view>({"and", "or", "not", "true", "false", "inf", "nan", "none"});
      const bool taken =
          std::find(words.begin(), words.end(), token.text) != words.end() || find_dtype(token.text);
      if (token.kind != TokenKind::identifier || taken)
        return cursor_.unexpected("a size, '_' or a size's name (no word of conditions, no element type)");
      dim.kind = RegionDim::Kind::name;
      const auto known = dimension(token.text);
      dim.name = known.value_or(static_cast<uint32_t>(rule_.dims.size()));
      if (!known) rule_.dims.emplace_back(token.text);
      cursor_.next();
    }
    return dims;
  }

  Error too_large(Position place) const {
    return fault(place, "FE-R15",
                 fmt::format("the rule is too large (at most {} terms, {} operands); split it", max_terms,
                             max_operands));
  }

  /// Parses `%a, %b =`.
  Result<std::vector<Token>> results() {
    std::vector<Token> names;
    do {
      FE_TRY(const Token name, cursor_.expect(TokenKind::value, "a result's name, as %r"));
      names.push_back(name);
    } while (cursor_.accept(","));
    FE_CHECK(cursor_.expect("="));
    return names;
  }

  /// Parses `op(operands) {attributes} once through(ops)`: the last three parts in any order, the last two in
  /// a match only.
  Result<OpTerm> op_term(bool matching) {
    OpTerm term;
    term.position = cursor_.peek().position;
    if (cursor_.peek().kind == TokenKind::value) {
      const Token name = cursor_.next();
      FE_TRY(term.region, region(name));
      term.op = text::sigil_name('%', name.text);
    } else {
      FE_TRY(term.op,
             graph::parse_word(cursor_, matching ? "the name of an op" : "the name of an op or a value"));
    }
    FE_CHECK(cursor_.expect("("));
    while (!cursor_.accept(")")) {
      if (!term.operands.empty()) FE_CHECK(cursor_.expect(","));
      if (++operands_ > max_operands) return too_large(cursor_.peek().position);
      const Position place = cursor_.peek().position;
      FE_TRY(Operand operand, matching ? match_operand() : yield_operand());
      if (matching && cursor_.is("|")) {
        FE_TRY(operand, alternatives(operand, place));
      }
      term.operands.push_back(operand);
    }
    for (bool attributes = false;;) {
      if (cursor_.is("{")) {
        if (attributes) return cursor_.unexpected("the next term (attributes are given once)");
        if (term.region) return cursor_.unexpected("the next term (a region has no attributes)");
        attributes = true;
        FE_TRY(term.attributes, attribute_terms(matching));
      } else if (cursor_.is("once") || cursor_.is("through")) {
        const bool once = cursor_.is("once");
        if (!matching) return cursor_.unexpected("the next term ('once' and 'through' are for the match)");
        if (once ? term.once : !term.through.empty()) {
          return cursor_.unexpected(fmt::format("the next term ('{}' is given once)", cursor_.peek().text));
        }
        cursor_.next();
        if (once) {
          term.once = true;
          continue;
        }
        FE_CHECK(cursor_.expect("("));
        do {
          FE_TRY(term.through.emplace_back(), graph::parse_word(cursor_, "the name of an op"));
        } while (cursor_.accept(","));
        FE_CHECK(cursor_.expect(")"));
      } else {
        return term;
      }
    }
  }

  Result<std::vector<AttributeTerm>> attribute_terms(bool matching) {
    std::vector<AttributeTerm> attributes;
    FE_CHECK(cursor_.expect("{"));
    while (!cursor_.accept("}")) {
      if (!attributes.empty()) FE_CHECK(cursor_.expect(","));
      AttributeTerm term;
      term.position = cursor_.peek().position;
      FE_TRY(term.name, graph::parse_word(cursor_, "the name of an attribute"));
      for (const AttributeTerm& other : attributes) {
        if (other.name == term.name)
          return fault(term.position, "FE-R08", fmt::format("attribute '{}' is given twice", term.name));
      }
      FE_CHECK(cursor_.expect("="));
      FE_CHECK(parse_attribute(cursor_, *this, matching, term));
      attributes.push_back(std::move(term));
    }
    return attributes;
  }

  /// Whether an inline op, or the application of a region, follows in the position of an operand.
  bool at_op() const {
    const TokenKind kind = cursor_.peek().kind;
    const bool name = kind == TokenKind::identifier || kind == TokenKind::string || kind == TokenKind::value;
    return name && cursor_.is("(", 1) && !cursor_.is("nan");
  }
  /// Parses an inline op as an operand; its term has no name yet.
  Result<Operand> nested(bool matching) {
    auto& terms = matching ? rule_.terms : rule_.yields;
    Operand operand;
    operand.position = cursor_.peek().position;
    if (++depth_ > max_nesting || terms.size() == max_terms) return too_large(operand.position);
    FE_TRY(OpTerm term, op_term(matching));
    --depth_;
    term.results.emplace_back();
    operand.kind = matching ? Kind::matched : Kind::made;
    operand.index = static_cast<uint32_t>(terms.size());
    terms.push_back(std::move(term));
    return operand;
  }

  Result<Operand> match_operand() {
    if (at_op()) return nested(true);
    Operand operand;
    operand.position = cursor_.peek().position;
    if (cursor_.peek().kind == TokenKind::value) {
      const Token token = cursor_.next();
      FE_CHECK(expect_value(token));
      const auto [found, added] = matched_.try_emplace(std::string(token.text));
      if (added) {
        found->second.kind = Kind::capture;
        found->second.index = static_cast<uint32_t>(rule_.captures.size());
        rule_.captures.emplace_back(token.text);
      }
      const Position place = operand.position;
      operand = found->second;
      operand.position = place;
      return operand;
    }
    if (cursor_.accept("_")) return operand;
    return constant_operand(
        operand, "an operand: %name, a number, '_', 'none', an op over operands, or alternatives of these");
  }

  Result<Operand> constant_operand(Operand operand, std::string_view expected) {
    if (cursor_.is("[") || cursor_.peek().kind == TokenKind::symbol) {
      return fault(
          operand.position, "FE-R01",
          fmt::format("{} is no operand; lists and captured attributes stand in attributes, as {{axes = "
                      "[$a, 1]}}, and in conditions. Expected {}",
                      cursor_.is("[") ? "a list" : text::sigil_name('$', cursor_.peek().text), expected));
    }
    if (cursor_.accept("none")) {
      operand.kind = Kind::none;
      return operand;
    }
    operand.kind = Kind::number;
    if (cursor_.is("true") || cursor_.is("false")) {
      operand.number.integer = cursor_.next().text == "true";
      operand.number.value = static_cast<double>(*operand.number.integer);
      return operand;
    }
    const size_t sign = cursor_.is("-") || cursor_.is("+");
    if (cursor_.peek(sign).kind == TokenKind::integer) {
      FE_TRY(operand.number.integer, cursor_.expect_integer(expected));
      operand.number.value = static_cast<double>(*operand.number.integer);
      return operand;
    }
    FE_TRY(operand.number.value, cursor_.expect_number(expected));
    return operand;
  }

  // Parses where { dtype(%x) != f64, rank(%x) == 2 }.

  Result<void> where() {
    FE_CHECK(cursor_.expect("{"));
    while (!cursor_.accept("}")) {
      if (rule_.conditions.size() == max_terms) return too_large(cursor_.peek().position);
      Condition condition;
      condition.position = cursor_.peek().position;
      FE_TRY(condition.expression, parse_condition(cursor_, *this, rule_.predicates));
      condition.text = print(rule_, condition.expression);
      rule_.conditions.push_back(std::move(condition));
      cursor_.accept(",");
    }
    return {};
  }

  // Parses yield { %t = acme.fma(%x, %y, %z) {axis = $k}   %r = %t }.

  Result<void> yield() {
    FE_CHECK(cursor_.expect("yield"));
    const Position place = cursor_.peek().position;
    FE_CHECK(cursor_.expect("{"));
    while (!cursor_.accept("}")) {
      if (rule_.yields.size() == max_terms) return too_large(cursor_.peek().position);
      FE_TRY(const std::vector<Token> names, results());
      if (cursor_.peek().kind == TokenKind::value && !cursor_.is("(", 1)) {
        FE_CHECK(yield_value(names));
      } else if (cursor_.peek().kind == TokenKind::integer || cursor_.peek().kind == TokenKind::number ||
                 cursor_.is("-")) {
        return fault(cursor_.peek().position, "FE-R13",
                     "a number cannot be a result by itself; yield an op that makes it, or a value "
                     "of the match");
      } else {
        FE_TRY(OpTerm term, op_term(false));
        if (rule_.yields.size() == max_terms) return too_large(term.position);
        Operand made;
        made.kind = Kind::made;
        made.index = static_cast<uint32_t>(rule_.yields.size());
        for (; made.result < names.size(); ++made.result) {
          term.results.emplace_back(names[made.result].text);
          made.position = names[made.result].position;
          FE_CHECK(assign(names[made.result], made));
        }
        rule_.yields.push_back(std::move(term));
      }
    }
    return check_yield(place);
  }

  Result<void> yield_value(const std::vector<Token>& names) {
    FE_TRY(const Operand by, yield_operand());
    if (names.size() != 1 || !matched_.contains(names[0].text)) {
      return fault(
          names[0].position, "FE-R12",
          fmt::format("%{} = %value replaces one result of the match, and this is none", names[0].text));
    }
    return assign(names[0], by);
  }

  /// Assigns a new name, or replaces a result of the match.
  Result<void> assign(const Token& name, const Operand& by) {
    if (const auto found = matched_.find(name.text); found != matched_.end()) {
      if (found->second.kind == Kind::capture) {
        return fault(
            name.position, "FE-R12",
            fmt::format("%{} is captured, not made by a matched op, and cannot be replaced", name.text));
      }
      Operand from = found->second;
      if (terms_of(rule_, from).empty()) {
        return fault(
            name.position, "FE-R12",
            fmt::format("%{} may be something else than the result of a matched op, and cannot be replaced",
                        name.text));
      }
      from.position = name.position;
      rule_.replacements.push_back({from, by});
    }
    if (find_region(name.text))
      return fault(name.position, "FE-R08", fmt::format("%{} is already a region's name", name.text));
    if (!made_.try_emplace(std::string(name.text), by).second) {
      return fault(name.position, "FE-R08", fmt::format("the yield gives %{} twice", name.text));
    }
    return {};
  }

  Result<Operand> yield_operand() {
    if (at_op()) return nested(false);
    if (cursor_.peek().kind == TokenKind::value) {
      const Token token = cursor_.next();
      FE_CHECK(expect_value(token));
      Operand operand;
      if (const auto found = made_.find(token.text); found != made_.end()) {
        operand = found->second;
      } else {
        FE_TRY(operand, value(token));
        if (operand.kind == Kind::matched || operand.kind == Kind::choice)
          old_reads_.push_back({operand, token.position});
      }
      operand.position = token.position;
      return operand;
    }
    Operand operand;
    operand.position = cursor_.peek().position;
    return constant_operand(operand, "an operand: %name, a number, 'none' or an op over operands");
  }

  Result<void> check_yield(Position place) {
    if (rule_.replacements.empty()) {
      return fault(place, "FE-R12",
                   fmt::format("the yield replaces no result of the match; give it {}",
                               print(rule_, rule_.roots[0].value)));
    }
    for (const auto& [operand, position] : old_reads_) {
      for (const Replacement& replacement : rule_.replacements) {
        const Operand& from = replacement.from;
        if (from.kind != operand.kind || from.index != operand.index || from.result != operand.result)
          continue;
        return fault(position, "FE-R12",
                     fmt::format("{} is replaced by this yield and cannot be read by what replaces it",
                                 print(rule_, operand)));
      }
    }
    std::vector<bool> read(rule_.yields.size());
    const auto mark = [&](const Operand& operand) {
      if (operand.kind == Kind::made) read[operand.index] = true;
    };
    for (const OpTerm& term : rule_.yields) std::for_each(term.operands.begin(), term.operands.end(), mark);
    for (const Replacement& replacement : rule_.replacements) mark(replacement.to);
    const auto unread = static_cast<size_t>(std::find(read.begin(), read.end(), false) - read.begin());
    if (unread == read.size()) return {};
    return fault(rule_.yields[unread].position, "FE-R12",
                 fmt::format("%{} is neither a result of the match nor read by another term",
                             rule_.yields[unread].results[0]));
  }

  Cursor& cursor_;
  Rule rule_;
  std::map<std::string, Operand, std::less<>> matched_;  // captures and matched results by name
  // Values of the names that the yield has assigned so far.
  std::map<std::string, Operand, std::less<>> made_;
  std::vector<std::pair<Operand, Position>> old_reads_;
  size_t operands_ = 0, depth_ = 0;
};

Result<std::vector<Rule>> read(std::string_view text, const std::string& file) {
  FE_TRY(const text::TokenList tokens, text::TokenList::read(text, file));
  Cursor cursor(tokens);
  if (cursor.accept("ferrite")) {
    FE_CHECK(cursor.expect("rules"));
    const Error version = cursor.unexpected("version 0, the only one that this build reads");
    FE_TRY(const int64_t number, cursor.expect_integer("the version of the text form"));
    if (number != 0) return version;
  }
  std::vector<Rule> rules;
  std::set<std::string> names;
  while (!cursor.at_end()) {
    if (!cursor.is("rule")) return cursor.unexpected("a rule, as `rule acme.mul_add at post_grad_pre {`");
    FE_TRY(Rule rule, RuleParser(cursor, file).read());
    if (!names.insert(rule.name).second) {
      return at(rule.where(rule.position),
                error(FE_EINVALID, "FE-R03", "there are two rules '{}'; rename one", rule.name));
    }
    rules.push_back(std::move(rule));
  }
  return rules;
}

}  // namespace

Result<std::vector<Rule>> parse_rules(std::string_view text, const std::string& file) {
  auto rules = read(text, file);
  // The lexer and the cursor report errors of text forms in general; here each of them is a grammar error of
  // a rule.
  if (!rules && (rules.error().code == "FE-G01" || rules.error().code == "FE-G02"))
    rules.error().code = "FE-R01";
  return rules;
}

}  // namespace ferrite::core::rewrite
