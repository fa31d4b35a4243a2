// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/passes/rewrite/language/check_rules.h"

#include <algorithm>
#include <numeric>

#include "core/passes/rewrite/language/attribute.h"
#include "core/passes/rewrite/language/condition.h"
#include "core/passes/rewrite/language/print_rules.h"
#include "core/passes/rewrite/language/structure.h"
#include "core/support/suggest.h"
#include "ferrite/counted.hpp"

namespace ferrite::core::rewrite {
namespace {

using graph::AttributeValue;
using graph::OpInfo;
using graph::OpRegistry;
using Kind = Operand::Kind;

class Checker {
 public:
  Checker(Rule& rule, const OpRegistry& registry)
      : rule_(rule), registry_(registry), bound_(always_bound(rule)) {}

  Result<void> check() {
    capture_kinds_.resize(rule_.attributes.size());
    for (OpTerm& term : rule_.terms) FE_CHECK(check_term(term, true));
    for (const OpTerm& term : rule_.terms) {
      for (const std::string& op : term.through) FE_CHECK(find(op, term.position));
    }
    for (OpTerm& term : rule_.yields) FE_CHECK(check_term(term, false));
    return {};
  }

 private:
  Error fault(text::Position place, const char* code, std::string what) const {
    return {FE_EINVALID, code, std::move(what), rule_.where(place)};
  }

  Result<const OpInfo*> find(const std::string& op, text::Position place) const {
    if (const OpInfo* info = registry_.find(op)) return info;
    if (is_function(op)) {
      return fault(
          place, "FE-R01",
          fmt::format("{0}(…) is no operand; functions stand in attributes, as {{axis = rank(%x) - 1, "
                      "epsilon = value(%c)}}, and in conditions. Capture a constant as %c and give the "
                      "op {{attribute = value(%c)}}",
                      op));
    }
    std::vector<std::string_view> names;
    for (const OpInfo* info : registry_.all()) names.push_back(info->name);
    return fault(place, "FE-R04",
                 fmt::format("no enabled plugin defines op '{}'{}", op, did_you_mean(op, names)));
  }

  Result<void> check_term(OpTerm& term, bool matching) {
    if (term.region) return check_application(term);
    FE_TRY(const OpInfo* info, find(term.op, term.position));
    term.commutative = info->def.flags & FE_OP_COMMUTATIVE;
    FE_CHECK(check_operands(term, *info));
    if (info->def.results != 0 && term.results.size() > info->def.results) {
      return fault(term.position, "FE-R05",
                   fmt::format("op '{}' has {}, not {}", term.op, counted(info->def.results, "result"),
                               term.results.size()));
    }
    for (AttributeTerm& attribute : term.attributes)
      FE_CHECK(check_attribute(term, attribute, *info, matching));
    if (matching) return {};
    for (const auto& def : info->attributes) {
      const bool given = std::any_of(term.attributes.begin(), term.attributes.end(),
                                     [&](const AttributeTerm& a) { return a.name == def.value.name; });
      if (def.required && !given) {
        return fault(term.position, "FE-R06",
                     fmt::format("op '{}' needs attribute '{}'; give it a value or a captured $name", term.op,
                                 def.value.name));
      }
    }
    return {};
  }

  Result<void> check_application(const OpTerm& term) const {
    const auto fits = [](const Operand& operand) {
      return operand.kind == Kind::capture || operand.kind == Kind::matched || operand.kind == Kind::made;
    };
    if (term.operands.size() == 1 && fits(term.operands[0]) && term.results.size() == 1) return {};
    return fault(term.position, "FE-R05",
                 fmt::format("region {0} takes one value and has one result, as %p = {0}(%x)", term.op));
  }

  Result<void> check_operands(const OpTerm& term, const OpInfo& info) const {
    const size_t most = info.operands.size(), given = term.operands.size();
    if (given < info.least_operands() || (given > most && !info.variadic())) {
      return fault(term.position, "FE-R05",
                   fmt::format("op '{}' takes {}, not {}", term.op, info.operands_text(), given));
    }
    bool value = false, number = false;
    const bool yields = &term >= rule_.yields.data() && &term < rule_.yields.data() + rule_.yields.size();
    for (size_t k = 0; k < given; ++k) {
      const Operand& operand = term.operands[k];
      const OpInfo::Operand& def = info.operands[std::min(k, most - 1)];
      const bool certain = operand.kind == Kind::made || operand.kind == Kind::number || bound_.has(operand);
      if (yields && !certain && operand.kind != Kind::none && !def.optional) {
        return fault(
            operand.position, "FE-R51",
            fmt::format("some alternatives of the match have no {}, and operand '{}' of op '{}' is never "
                        "absent",
                        print(rule_, operand), def.name, term.op));
      }
      if (operand.kind == Kind::none && !def.optional) {
        return fault(operand.position, "FE-R05",
                     fmt::format("operand '{}' of op '{}' is never absent", def.name, term.op));
      }
      number = number || operand.kind == Kind::number;
      value = value || operand.kind == Kind::capture || operand.kind == Kind::matched ||
              operand.kind == Kind::choice || operand.kind == Kind::made;
    }
    if (yields && number && !value) {
      return fault(term.position, "FE-R13",
                   fmt::format("the numbers given to '{}' get their element type from its first value "
                               "operand, and it has none",
                               term.op));
    }
    return {};
  }

  Result<void> check_attribute(const OpTerm& term, AttributeTerm& attribute, const OpInfo& info,
                               bool matching) {
    const auto* def = info.find(attribute.name);
    if (!def) {
      std::vector<std::string_view> names;
      for (const auto& known : info.attributes) names.push_back(known.value.name);
      return fault(attribute.position, "FE-R06",
                   fmt::format("op '{}' has no attribute '{}'{}", term.op, attribute.name,
                               did_you_mean(attribute.name, names)));
    }
    const uint32_t wanted = def->value.kind();
    attribute.kind = wanted;
    attribute.flags = def->flags & (FE_ATTRIBUTE_AXIS | FE_ATTRIBUTE_AXIS_OF_RESULT);
    if (matching && !def->required) attribute.fallback = def->value.value;
    if (!matching && def->required && !certain(attribute)) {
      return fault(
          attribute.position, "FE-R51",
          fmt::format("some alternatives of the match have not all that `{}` reads, and op '{}' needs the "
                      "attribute; say what it is for them, as `… else 1`",
                      print(rule_, attribute), term.op));
    }
    if (attribute.capture) {
      uint32_t& captured = capture_kinds_[*attribute.capture];
      if (captured == 0) captured = wanted;
      if (captured == wanted || (!matching && captured == FE_ATTR_INT && wanted == FE_ATTR_FLOAT)) return {};
      return wrong_kind(term, attribute, wanted, captured);
    }
    if (attribute.computed) return check_computed(term, attribute, *attribute.computed, wanted);
    const uint32_t given = kind_of(attribute.literal);
    auto literal = converted(std::move(attribute.literal), wanted);
    if (!literal) return wrong_kind(term, attribute, wanted, given);
    attribute.literal = std::move(*literal);
    return {};
  }

  /// Whether every match defines this attribute of a yield.
  bool certain(const AttributeTerm& attribute) const {
    if (attribute.capture) return bound_.attributes[*attribute.capture];
    return !attribute.computed || reads_only(*attribute.computed, bound_);
  }

  /// Checks that a computed attribute has the declared kind, as far as that is known before matching.
  Result<void> check_computed(const OpTerm& term, const AttributeTerm& attribute, const Expression& e,
                              uint32_t wanted) {
    using Form = Expression::Kind;
    if (e.kind == Form::otherwise) {
      FE_CHECK(check_computed(term, attribute, e.children[0], wanted));
      return check_computed(term, attribute, e.children[1], wanted);
    }
    if (e.kind == Form::list_of) return check_list(term, attribute, e, wanted);
    uint32_t given = kind_of_result(e);
    if (given == FE_ATTR_INT && wanted == FE_ATTR_FLOAT) given = wanted;
    // The value of a constant has the constant's dtype, and so do expressions over it: it may be integral.
    const bool number = given == FE_ATTR_FLOAT && wanted == FE_ATTR_INT && e.kind != Form::divide;
    const bool literal = e.kind <= Form::list && converted(e.literal, wanted);
    if (given == 0 || given == wanted || literal || (number && e.kind > Form::list)) return {};
    return wrong_kind(term, attribute, wanted, given);
  }

  Result<void> check_list(const OpTerm& term, const AttributeTerm& attribute, const Expression& e,
                          uint32_t wanted) {
    const uint32_t item = wanted == FE_ATTR_INTS      ? FE_ATTR_INT
                          : wanted == FE_ATTR_FLOATS  ? FE_ATTR_FLOAT
                          : wanted == FE_ATTR_STRINGS ? FE_ATTR_STRING
                                                      : 0;
    if (item == 0) return wrong_kind(term, attribute, wanted, FE_ATTR_INTS);
    for (const Expression& child : e.children) {
      const bool fresh = child.kind == Expression::Kind::attribute && capture_kinds_[child.index] == 0;
      if (fresh) capture_kinds_[child.index] = item;
      if (auto fits = check_computed(term, attribute, child, item); !fits) {
        fits.error().text = "of an item: " + fits.error().text;
        return fits;
      }
    }
    return {};
  }

  /// FE_ATTR_*; FE_ATTR_FLOAT for numbers that may be integers; 0 if any kind is possible.
  uint32_t kind_of_result(const Expression& e) const {
    using Form = Expression::Kind;
    if (e.kind <= Form::list) return kind_of(e.literal);
    switch (e.kind) {
      case Form::attribute: return capture_kinds_[e.index];
      case Form::shape_of: return FE_ATTR_INTS;
      case Form::dtype_of: return FE_ATTR_DTYPE;
      case Form::rank_of:
      case Form::dim_of:
      case Form::elements_of:
      case Form::uses_of:
      case Form::side_rank_of:
      case Form::dimension: return FE_ATTR_INT;
      case Form::value_of:
      case Form::add:
      case Form::subtract:
      case Form::multiply:
      case Form::divide:
      case Form::negate: return FE_ATTR_FLOAT;
      default: return FE_ATTR_BOOL;
    }
  }

  Error wrong_kind(const OpTerm& term, const AttributeTerm& attribute, uint32_t wanted,
                   uint32_t given) const {
    return fault(attribute.position, "FE-R06",
                 fmt::format("attribute '{}' of op '{}' is {}, not {}", attribute.name, term.op,
                             graph::attribute_kind_name(wanted), graph::attribute_kind_name(given)));
  }

  Rule& rule_;
  const OpRegistry& registry_;
  const Bound bound_;
  std::vector<uint32_t> capture_kinds_;
};

/// Decides whether the rule certainly matches its own yield again.
class SelfMatch {
 public:
  explicit SelfMatch(const Rule& rule) : rule_(rule), uses_(rule.yields.size()) {
    const auto count = [&](const Operand& operand) {
      if (operand.kind == Kind::made) ++uses_[operand.index];
    };
    for (const OpTerm& term : rule.yields) std::for_each(term.operands.begin(), term.operands.end(), count);
    for (const Replacement& replacement : rule.replacements) count(replacement.to);
  }

  /// Every replaced result is replaced by the same op over the same operands.
  bool changes_nothing() {
    exact_ = true;
    return std::all_of(rule_.replacements.begin(), rule_.replacements.end(),
                       [&](const Replacement& replacement) {
                         bindings_.assign(rule_.captures.size(), nullptr);
                         return takes(replacement.from, replacement.to);
                       });
  }
  /// Some op of the yield matches the whole pattern for any operands.
  bool grows() {
    exact_ = false;
    if (!rule_.conditions.empty() || rule_.roots.size() != 1) return false;
    const Operand& pattern = rule_.roots[0].value;
    for (const uint32_t root : terms_of(rule_, pattern)) {
      if (rule_.terms[root].once) return false;
    }
    Operand made;
    made.kind = Kind::made;
    for (made.index = 0; made.index < rule_.yields.size(); ++made.index) {
      bindings_.assign(rule_.captures.size(), nullptr);
      if (takes(pattern, made)) return true;
    }
    return false;
  }

 private:
  bool takes(const Operand& pattern, const Operand& made) {
    // Shared and commutative terms have exponentially many pairings. Stop early; max_rewrites catches the
    // rest at run time.
    constexpr size_t max_steps = 100'000;
    if (++steps_ > max_steps) return false;
    switch (pattern.kind) {
      case Kind::none: return made.kind == Kind::none;
      case Kind::any: return made.kind != Kind::none;
      case Kind::number:
        return made.kind == Kind::number && made.number.integer == pattern.number.integer &&
               made.number.value == pattern.number.value;
      case Kind::capture: {
        if (made.kind == Kind::none) return false;
        if (exact_) return made.kind == Kind::capture && made.index == pattern.index;
        const Operand*& bound = bindings_[pattern.index];
        if (!bound) bound = &made;
        return bound->kind == made.kind && made.kind != Kind::number && bound->index == made.index &&
               bound->result == made.result;
      }
      case Kind::matched:
        if (made.kind == Kind::matched) return made.index == pattern.index && made.result == pattern.result;
        return made.kind == Kind::made && made.result == pattern.result &&
               takes(rule_.terms[pattern.index], made.index);
      case Kind::choice: {
        const auto before = bindings_;
        for (const Operand& way : rule_.choices[pattern.index].ways) {
          bindings_ = before;
          if (takes(way, made)) return true;
        }
        return false;
      }
      case Kind::made: return false;
    }
    return false;
  }

  bool takes(const OpTerm& pattern, uint32_t index) {
    const OpTerm& made = rule_.yields[index];
    // The extent of a region depends on the graph: leave the case to max_rewrites.
    if (pattern.region && !exact_) return false;
    if (pattern.op != made.op || pattern.region != made.region ||
        (pattern.once && uses_[index] != 1 && !exact_))
      return false;
    for (const AttributeTerm& attribute : pattern.attributes) {
      if (!takes(attribute, made)) return false;
    }
    // An attribute that only the yield sets may be the rule's purpose, so the result differs from the match.
    const bool more =
        std::any_of(made.attributes.begin(), made.attributes.end(), [&](const AttributeTerm& given) {
          return std::none_of(pattern.attributes.begin(), pattern.attributes.end(),
                              [&](const AttributeTerm& a) { return a.name == given.name; });
        });
    if (more || made.operands.size() != pattern.operands.size()) return false;
    std::vector<size_t> order(made.operands.size());
    std::iota(order.begin(), order.end(), size_t{0});
    const auto before = bindings_;
    do {
      bindings_ = before;
      bool all = true;
      for (size_t k = 0; all && k < order.size(); ++k)
        all = takes(pattern.operands[k], made.operands[order[k]]);
      if (all) return true;
    } while (pattern.commutative && order.size() == 2 && std::next_permutation(order.begin(), order.end()));
    return false;
  }

  bool takes(const AttributeTerm& pattern, const OpTerm& made) const {
    const auto given = std::find_if(made.attributes.begin(), made.attributes.end(),
                                    [&](const AttributeTerm& a) { return a.name == pattern.name; });
    // The value of an expression depends on the graph.
    if (pattern.computed || (given != made.attributes.end() && given->computed)) return false;
    if (given == made.attributes.end()) {
      return !pattern.capture ? pattern.fallback && same(*pattern.fallback, pattern.literal) : !exact_;
    }
    if (pattern.capture) return exact_ ? given->capture == pattern.capture : true;
    return !given->capture && same(given->literal, pattern.literal);
  }

  const Rule& rule_;
  std::vector<size_t> uses_;
  std::vector<const Operand*> bindings_;
  size_t steps_ = 0;
  bool exact_ = false;
};

}  // namespace

Result<void> check_rule(Rule& rule, const graph::OpRegistry& registry) {
  FE_CHECK(Checker(rule, registry).check());
  SelfMatch self(rule);
  const bool nothing = self.changes_nothing();
  if (!nothing && !self.grows()) return {};
  return at(rule.where(rule.position),
            error(FE_EINVALID, "FE-R14",
                  "rule '{}' would never end: {}; add a condition that its result does not meet", rule.name,
                  nothing ? "its yield is its match" : "its match accepts its own yield"));
}

}  // namespace ferrite::core::rewrite
