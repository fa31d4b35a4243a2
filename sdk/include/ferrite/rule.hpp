// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Rules in C++: a builder that writes the text of the rule language, so that both forms use the same matcher.
//   rule("acme.mul_add").match(op("add")(op("mul")(x, y).used_once(),
//   z)).where(predicate).yield(op("acme.fma")(x, y, z))
//   rule("acme.root").match(op("sqrt")(x) | op("pow")(x, 0.5)).yield(op("acme.root")(x))
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ferrite/graph.hpp"

namespace ferrite::inline v0 {

/// The captures of a match, for predicates.
class Match {
 public:
  Match(Graph& graph, const fe_match_args& args) : root(&graph, args.root), graph_(&graph), args_(&args) {}
  /// The value with this name; none if it belongs to an alternative that was not taken. FE-R20 if there is no
  /// such name.
  Value operator[](std::string_view name) const {
    bool known = false;
    for (size_t k = 0; k < args_->names.count; ++k) {
      if (from_abi(element<fe_string>(args_->names, k)) != name) continue;
      known = true;
      // Two alternatives may use the same name; at most one of them was taken.
      if (fe_value value = element<fe_value>(args_->values, k)) return {graph_, value};
    }
    if (known) return {};
    fail("FE-R20", "the rule captures no value '", name, "'");
  }
  /// The captured attributes: match.attrs().integer("axis") for {axis = $axis}. Axes count from the first
  /// dim. Attributes of alternatives that were not taken are missing.
  AttrView attrs() const { return args_->size < sizeof(fe_match_args) ? AttrView() : AttrView(args_->attrs); }
  /// The number that all elements of the constant with this name equal, as value(%name) in a condition; none
  /// if it is no such constant.
  std::optional<double> number(std::string_view name) const {
    const Value value = (*this)[name];
    return value ? value.number() : std::nullopt;
  }
  const Node root;

 private:
  Graph* graph_;
  const fe_match_args* args_;
};

/// A term of a pattern or of its replacement: a captured value, a number, or an op over terms. Copies share
/// structure, so an op term that is used twice is one node.
class Term {
 public:
  struct State {
    std::string op;    // empty: a capture or a number
    std::string text;  // captures "%x", numbers "0.5"
    std::vector<Term> operands;
    std::string attrs;
    std::string through;
    bool once = false;
    std::string region = {};      // for a term that applies a region: the line that declares the region
    std::vector<Term> ways = {};  // alternatives
  };
  explicit Term(State state) : state_(std::make_shared<State>(std::move(state))) {}
  Term(double number) : Term(State{{}, number_text(number), {}, {}, {}, false}) {}
  /// Matches only if the result has a single use. This and the next two functions apply to each of several
  /// alternatives.
  Term& used_once() {
    for_each_op([](State& op) { op.once = true; });
    return *this;
  }
  /// Looks through these ops between this node and its users: through("cast, reshape").
  Term& through(const std::string& ops) {
    for_each_op([&](State& op) { op.through = ops; });
    return *this;
  }
  /// In a pattern, {axis = -1} compares and {axis = $a} captures; in a replacement they set the attribute, as
  /// does {epsilon = value(%c)}. Written as in the text form.
  Term& attrs(const std::string& text) {
    for_each_op([&](State& op) { op.attrs = text; });
    return *this;
  }
  /// Alternatives, tried in order; a | b | c has three. In a pattern only.
  friend Term operator|(const Term& a, const Term& b) {
    State state;
    for (const Term& term : {a, b}) {
      if (term.state().ways.empty())
        state.ways.push_back(term);
      else
        state.ways.insert(state.ways.end(), term.state().ways.begin(), term.state().ways.end());
    }
    return Term(std::move(state));
  }
  const State& state() const { return *state_; }
  const void* identity() const { return state_.get(); }

 private:
  template <class Edit>
  void for_each_op(const Edit& edit) {
    if (!state_->op.empty()) edit(*state_);
    for (Term& way : state_->ways) way.for_each_op(edit);
  }
  static std::string number_text(double number) {
    char buffer[40];
    std::snprintf(buffer, sizeof buffer, "%.17g", number);
    return buffer;
  }
  std::shared_ptr<State> state_;
};
/// Any value; all uses of the name must be the same value.
inline Term any(std::string name) { return Term(Term::State{{}, "%" + name, {}, {}, {}, false}); }

/// op("add")(x, y)
class OpTerm {
 public:
  explicit OpTerm(std::string name) : name_(std::move(name)) {}
  template <class... Terms>
  Term operator()(Terms... terms) const {
    return Term(Term::State{name_, {}, {Term(terms)...}, {}, {}, false});
  }

 private:
  std::string name_;
};
inline OpTerm op(std::string name) { return OpTerm(std::move(name)); }

/// A subgraph that a match takes as a whole: all ops between the operand and the result of the term f(x),
/// which must all be pointwise. In a replacement, f(y) copies these ops for another operand, with the same
/// side inputs. A match must apply each region once.
class Region {
 public:
  explicit Region(std::string name) : name_(std::move(name)) {}
  /// The sizes of operand and result: names, numbers or _, as in over("b, h, q, 64"). A name denotes the same
  /// size throughout the rule, and conditions may use it.
  Region& over(std::string dims) {
    over_ = " over [" + std::move(dims) + "]";
    return *this;
  }
  Term operator()(Term operand) const {
    return Term(Term::State{
        "%" + name_, {}, {std::move(operand)}, {}, {}, false, "region %" + name_ + ": pointwise" + over_});
  }

 private:
  std::string name_, over_;
};
inline Region region(std::string name) { return Region(std::move(name)); }

class Rule {
 public:
  using Predicate = std::function<bool(const Match&)>;
  explicit Rule(std::string name) : name_(std::move(name)) {}
  /// A root of the pattern. Call it several times for a pattern that replaces several values.
  Rule& match(Term root) {
    pattern_.push_back(std::move(root));
    return *this;
  }
  Rule& where(Predicate predicate) {
    predicates_.push_back(std::move(predicate));
    return *this;
  }
  /// A condition of the rule language, e.g. "dtype(%x) != f64".
  Rule& where(std::string condition) {
    conditions_.push_back(std::move(condition));
    return *this;
  }
  /// The replacement of a root: the first yield replaces the first root, and so on.
  Rule& yield(Term replacement) {
    yield_.push_back(std::move(replacement));
    return *this;
  }

  const std::string& name() const { return name_; }
  const std::vector<Predicate>& predicates() const { return predicates_; }
  std::string predicate_name(size_t k) const { return name_ + "#" + std::to_string(k); }

  /// The rule in text form, for `phase`. FE-R22 if the number of yields differs from the number of roots.
  std::string text(std::string_view phase) const {
    if (pattern_.empty() || yield_.size() != pattern_.size())
      fail("FE-R22", "rule '", name_, "' has ", pattern_.size(), " roots and ", yield_.size(),
           " yields; every root is replaced by one yield, in order");
    Printer pattern{"%node", {}, true}, replacement{"%new", {}, false};
    std::vector<std::string> roots;
    std::string result = "rule " + name_ + " at " + std::string(phase) + " {\n  match {\n";
    for (const Term& term : pattern_) roots.push_back(pattern.print(term, result));
    result += "  }\n";
    if (!conditions_.empty() || !predicates_.empty()) {
      result += "  where {\n";
      for (const auto& condition : conditions_) result += "    " + condition + "\n";
      for (size_t k = 0; k < predicates_.size(); ++k)
        result += "    predicate(\"" + predicate_name(k) + "\")\n";
      result += "  }\n";
    }
    result += "  yield {\n";
    for (size_t k = 0; k < roots.size(); ++k) {
      const std::string value = replacement.print(yield_[k], result, roots[k]);
      if (value != roots[k]) result += "    " + roots[k] + " = " + value + "\n";
    }
    return result + "  }\n}\n";
  }

 private:
  struct Printer {
    std::string prefix;
    std::map<const void*, std::string> names;
    bool declares;
    /// Writes the lines of a term, operands first, and returns the name of its value: `root_name` if given.
    std::string print(const Term& term, std::string& out, const std::string& root_name = {}) {
      const auto& state = term.state();
      if (state.op.empty() && state.ways.empty()) return state.text;
      if (auto found = names.find(term.identity()); found != names.end()) return found->second;
      std::string operands;
      for (const auto& operand : state.operands)
        operands += (operands.empty() ? "" : ", ") + print(operand, out);
      std::string ways;
      for (const auto& way : state.ways) ways += (ways.empty() ? "" : " | ") + print(way, out);
      std::string name = root_name.empty() ? prefix + std::to_string(names.size()) : root_name;
      names.emplace(term.identity(), name);
      if (!ways.empty()) {
        out += "    " + name + " = " + ways + "\n";
        return name;
      }
      if (declares && !state.region.empty()) out += "    " + state.region + "\n";
      out += "    " + name + " = " + state.op + "(" + operands + ")";
      if (!state.attrs.empty()) out += " " + state.attrs;
      if (state.once) out += " once";
      if (!state.through.empty()) out += " through(" + state.through + ")";
      out += "\n";
      return name;
    }
  };
  std::string name_;
  std::vector<Term> pattern_, yield_;
  std::vector<Predicate> predicates_;
  std::vector<std::string> conditions_;
};
inline Rule rule(std::string name) { return Rule(std::move(name)); }

/// Rules for one phase, in the form that FERRITE_PLUGIN takes; each is a Rule or a function that returns one.
struct RuleSet {
  std::string phase;
  std::vector<Rule> rules;
  std::string text;  ///< rules given as text instead
  std::string file;
};
template <class... Rules>
RuleSet rules(std::string phase, Rules&&... items) {
  RuleSet set{std::move(phase), {}, {}, {}};
  auto add = [&](auto&& item) {
    if constexpr (std::is_invocable_r_v<Rule, decltype(item)>)
      set.rules.push_back(item());
    else
      set.rules.push_back(item);
  };
  (add(std::forward<Rules>(items)), ...);
  return set;
}
/// Rules in text form; `file` is their name in messages.
inline RuleSet rule_text(std::string file, std::string text) {
  return {{}, {}, std::move(text), std::move(file)};
}

}  // namespace ferrite::inline v0
