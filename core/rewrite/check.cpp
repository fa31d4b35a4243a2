// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/rewrite/check.h"

#include <algorithm>
#include <numeric>

#include "core/support/suggest.h"
#include "ferrite/counted.hpp"

namespace ferrite::core::rewrite {
namespace {

using graph::AttributeValue;
using graph::OpInfo;
using graph::OpRegistry;
using Kind = Operand::Kind;

uint32_t kind_of(const AttributeValue& value) { return static_cast<uint32_t>(value.index()) + 1; }
bool same(const AttributeValue& a, const AttributeValue& b) {
  return graph::Attribute{{}, a} == graph::Attribute{{}, b};
}

class Checker {
 public:
  Checker(Rule& rule, const OpRegistry& registry) : rule_(rule), registry_(registry) {}

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
    for (size_t k = 0; k < given; ++k) {
      const Operand& operand = term.operands[k];
      const OpInfo::Operand& def = info.operands[std::min(k, most - 1)];
      if (operand.kind == Kind::none && !def.optional) {
        return fault(operand.position, "FE-R05",
                     fmt::format("operand '{}' of op '{}' is never absent", def.name, term.op));
      }
      number = number || operand.kind == Kind::number;
      value = value || operand.kind == Kind::capture || operand.kind == Kind::matched ||
              operand.kind == Kind::made;
    }
    const bool yields = &term >= rule_.yields.data() && &term < rule_.yields.data() + rule_.yields.size();
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
    if (matching && !def->required) attribute.fallback = def->value.value;
    if (attribute.capture) {
      uint32_t& captured = capture_kinds_[*attribute.capture];
      if (captured == 0) captured = wanted;
      if (captured == wanted || (!matching && captured == FE_ATTR_INT && wanted == FE_ATTR_FLOAT)) return {};
      return wrong_kind(term, attribute, wanted, captured);
    }
    AttributeValue& literal = attribute.literal;
    const bool empty = kind_of(literal) == FE_ATTR_INTS && std::get<std::vector<int64_t>>(literal).empty();
    if (wanted == FE_ATTR_FLOAT && kind_of(literal) == FE_ATTR_INT) {
      literal = static_cast<double>(std::get<int64_t>(literal));
    } else if (wanted == FE_ATTR_FLOATS && kind_of(literal) == FE_ATTR_INTS) {
      const auto integers = std::get<std::vector<int64_t>>(literal);
      literal = std::vector<double>(integers.begin(), integers.end());
    } else if (wanted == FE_ATTR_STRINGS && empty) {
      literal = std::vector<std::string>();
    }
    if (kind_of(literal) != wanted) return wrong_kind(term, attribute, wanted, kind_of(literal));
    return {};
  }

  Error wrong_kind(const OpTerm& term, const AttributeTerm& attribute, uint32_t wanted,
                   uint32_t given) const {
    return fault(attribute.position, "FE-R06",
                 fmt::format("attribute '{}' of op '{}' is {}, not {}", attribute.name, term.op,
                             graph::attribute_kind_name(wanted), graph::attribute_kind_name(given)));
  }

  Rule& rule_;
  const OpRegistry& registry_;
  std::vector<uint32_t> capture_kinds_;
};

/// Whether what a yield makes is surely matched by the rule again.
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
  /// Some op of the yield is, for any operands, what the whole match looks for.
  bool grows() {
    exact_ = false;
    if (!rule_.conditions.empty() || rule_.roots.size() != 1 || rule_.terms.back().once) return false;
    Operand pattern, made;
    pattern.kind = Kind::matched;
    pattern.index = rule_.roots[0].term;
    made.kind = Kind::made;
    for (made.index = 0; made.index < rule_.yields.size(); ++made.index) {
      bindings_.assign(rule_.captures.size(), nullptr);
      if (takes(pattern, made)) return true;
    }
    return false;
  }

 private:
  bool takes(const Operand& pattern, const Operand& made) {
    // Shared and commutative terms can be paired in very many ways; what is not found early is left to max_rewrites.
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
      case Kind::made: return false;
    }
    return false;
  }

  bool takes(const OpTerm& pattern, uint32_t index) {
    const OpTerm& made = rule_.yields[index];
    // What a region takes in depends on the graph; that is left to max_rewrites.
    if (pattern.region && !exact_) return false;
    if (pattern.op != made.op || pattern.region != made.region ||
        (pattern.once && uses_[index] != 1 && !exact_))
      return false;
    for (const AttributeTerm& attribute : pattern.attributes) {
      if (!takes(attribute, made)) return false;
    }
    // An attribute that only the yield gives may be what it is for.
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
                  nothing ? "its yield is its match" : "its own match takes what it yields"));
}

}  // namespace ferrite::core::rewrite
