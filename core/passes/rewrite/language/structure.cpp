// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/passes/rewrite/language/structure.h"

#include <algorithm>
#include <utility>

#include "core/passes/rewrite/language/condition.h"

namespace ferrite::core::rewrite {
namespace {

using Kind = Operand::Kind;

Error fault(const Rule& rule, text::Position place, const char* code, std::string what) {
  return {FE_EINVALID, code, std::move(what), rule.where(place)};
}

/// Calls `term` and `choice` with the number of each, in the order of the text, so operands come before their
/// readers.
template <class OnTerm, class OnChoice>
void for_each_in_order(const Rule& rule, const OnTerm& term, const OnChoice& choice) {
  uint32_t next = 0;
  const auto choices_before = [&](size_t terms) {
    while (next < rule.choices.size() && rule.choices[next].terms_before <= terms) choice(next++);
  };
  for (uint32_t k = 0; k < rule.terms.size(); ++k) {
    choices_before(k);
    term(k);
  }
  choices_before(rule.terms.size());
}

void add(Bound& to, const Bound& from) {
  to.captures |= from.captures;
  to.attributes |= from.attributes;
  to.terms |= from.terms;
  to.choices |= from.choices;
}
void keep(Bound& to, const Bound& from) {
  to.captures &= from.captures;
  to.attributes &= from.attributes;
  to.terms &= from.terms;
  to.choices &= from.choices;
}

/// Computes which names matching each term and each choice binds; `join` combines the alternatives of a
/// choice.
class Reach {
 public:
  template <class Join>
  Reach(const Rule& rule, const Join& join)
      : rule_(rule), terms_(rule.terms.size(), Bound(rule)), choices_(rule.choices.size(), Bound(rule)) {
    for_each_in_order(
        rule,
        [&](uint32_t k) {
          terms_[k].terms[k] = true;
          for (const Operand& operand : rule.terms[k].operands) rewrite::add(terms_[k], of(operand));
          for (const AttributeTerm& attribute : rule.terms[k].attributes) attributes(attribute, terms_[k]);
        },
        [&](uint32_t k) {
          std::vector<Bound> ways;
          for (const Operand& way : rule.choices[k].ways) ways.push_back(of(way));
          choices_[k] = join(k, ways);
          choices_[k].choices[k] = true;
        });
  }

  Bound of(const Operand& operand) const {
    if (operand.kind == Kind::matched) return terms_[operand.index];
    if (operand.kind == Kind::choice) return choices_[operand.index];
    Bound bound(rule_);
    if (operand.kind == Kind::capture) bound.captures[operand.index] = true;
    return bound;
  }
  Bound of_roots() const {
    Bound bound(rule_);
    for (const Root& root : rule_.roots) rewrite::add(bound, of(root.value));
    return bound;
  }

 private:
  static void attributes(const AttributeTerm& attribute, Bound& bound) {
    if (attribute.capture) bound.attributes[*attribute.capture] = true;
    if (!attribute.computed || attribute.computed->kind != Expression::Kind::list_of) return;
    for (const Expression& item : attribute.computed->children) {
      if (item.kind == Expression::Kind::attribute) bound.attributes[item.index] = true;
    }
  }

  const Rule& rule_;
  std::vector<Bound> terms_, choices_;
};

Reach certain(const Rule& rule) {
  return Reach(rule, [](uint32_t, const std::vector<Bound>& ways) {
    Bound all = ways[0];
    for (const Bound& way : ways) keep(all, way);
    return all;
  });
}
Reach possible(const Rule& rule) {
  return Reach(rule, [](uint32_t, const std::vector<Bound>& ways) {
    Bound any = ways[0];
    for (const Bound& way : ways) add(any, way);
    return any;
  });
}

/// Every match must apply each region exactly once, and must bind both of its ends without it.
Result<void> check_regions(const Rule& rule) {
  std::vector<const OpTerm*> applied(rule.regions.size());
  std::vector<bool> read(rule.terms.size());
  for (const OpTerm& term : rule.terms) {
    for (const Operand& operand : term.operands) {
      if (operand.kind == Kind::matched) read[operand.index] = true;
    }
    if (!term.region) continue;
    const std::string& name = rule.regions[*term.region].name;
    if (std::exchange(applied[*term.region], &term))
      return fault(rule, term.position, "FE-R23",
                   fmt::format("the match applies region %{} twice; declare another", name));
    for (const Operand& operand : term.operands) {
      if (operand.kind != Kind::matched) continue;
      const OpTerm& before = rule.terms[operand.index];
      if (!before.region || !before.through.empty()) continue;
      return fault(rule, operand.position, "FE-R23",
                   fmt::format("region {} begins where region {} ends; two pointwise regions are one",
                               term.op, before.op));
    }
  }
  for (const Choice& choice : rule.choices) {
    for (const Operand& way : choice.ways) {
      if (way.kind != Kind::matched || !rule.terms[way.index].region) continue;
      return fault(rule, way.position, "FE-R23",
                   fmt::format("region {} is an alternative; alternatives are ops, values and numbers",
                               rule.terms[way.index].op));
    }
  }
  for (uint32_t k = 0; k < rule.regions.size(); ++k) {
    const Region& region = rule.regions[k];
    if (!applied[k]) {
      return fault(
          rule, region.position, "FE-R23",
          fmt::format("the match does not apply region %{0}; add a term, as %p = %{0}(%x)", region.name));
    }
    const auto term = static_cast<size_t>(applied[k] - rule.terms.data());
    if (read[term]) continue;
    return fault(
        rule, rule.terms[term].position, "FE-R23",
        fmt::format("no later term reads the result of region %{}; a region lies between a value and "
                    "an op of the match",
                    region.name));
  }
  return {};
}

}  // namespace

bool Bound::has(const Operand& operand) const {
  switch (operand.kind) {
    case Kind::capture: return captures[operand.index];
    case Kind::matched: return terms[operand.index];
    case Kind::choice: return choices[operand.index];
    default: return operand.kind != Kind::none;
  }
}

Bound always_bound(const Rule& rule) { return certain(rule).of_roots(); }

Bound bound_by(const Rule& rule, const std::function<size_t(uint32_t)>& way) {
  return Reach(rule, [&](uint32_t choice, const std::vector<Bound>& ways) { return ways[way(choice)]; })
      .of_roots();
}

bool reads_only(const Expression& expression, const Bound& bound) {
  const auto only = [&](const Expression& child) { return reads_only(child, bound); };
  if (expression.kind == Expression::Kind::otherwise)
    return std::any_of(expression.children.begin(), expression.children.end(), only);
  if (reads_value(expression.kind) && !bound.has(expression.value)) return false;
  if (expression.kind == Expression::Kind::attribute && !bound.attributes[expression.index]) return false;
  return std::all_of(expression.children.begin(), expression.children.end(), only);
}

std::vector<uint32_t> terms_of(const Rule& rule, const Operand& operand) {
  std::vector<uint32_t> terms;
  std::vector<const Operand*> pending{&operand};
  std::vector<bool> seen(rule.choices.size());
  while (!pending.empty()) {
    const Operand& next = *pending.back();
    pending.pop_back();
    if (next.kind == Kind::matched) {
      terms.push_back(next.index);
    } else if (next.kind != Kind::choice) {
      return {};
    } else if (!seen[next.index]) {
      seen[next.index] = true;
      for (const Operand& way : rule.choices[next.index].ways) pending.push_back(&way);
    }
  }
  std::sort(terms.begin(), terms.end());
  terms.erase(std::unique(terms.begin(), terms.end()), terms.end());
  return terms;
}

std::vector<size_t> depths(const Rule& rule) {
  std::vector<size_t> terms(rule.terms.size()), choices(rule.choices.size());
  const auto deepest = [&](const std::vector<Operand>& operands) {
    size_t depth = 0;
    for (const Operand& operand : operands) {
      if (operand.kind == Kind::matched) depth = std::max(depth, terms[operand.index]);
      if (operand.kind == Kind::choice) depth = std::max(depth, choices[operand.index]);
    }
    return depth;
  };
  for_each_in_order(
      rule, [&](uint32_t k) { terms[k] = deepest(rule.terms[k].operands) + 1; },
      [&](uint32_t k) { choices[k] = deepest(rule.choices[k].ways); });
  return terms;
}

Result<void> find_roots(Rule& rule) {
  FE_CHECK(check_regions(rule));
  std::vector<bool> read(rule.terms.size());
  for (const OpTerm& term : rule.terms) {
    for (const Operand& operand : term.operands) {
      if (operand.kind == Kind::matched) read[operand.index] = true;
    }
  }
  for (const Choice& choice : rule.choices) {
    for (const Operand& way : choice.ways) {
      if (way.kind == Kind::matched) read[way.index] = true;
    }
  }
  // Choices are numbered separately from terms: the last value is a choice if no term follows it.
  const bool ends_in_choice = !rule.choices.empty() && rule.choices.back().terms_before == rule.terms.size();
  Operand last;
  last.kind = ends_in_choice ? Kind::choice : Kind::matched;
  last.index = static_cast<uint32_t>((ends_in_choice ? rule.choices.size() : rule.terms.size()) - 1);
  if (terms_of(rule, last).empty()) {
    const Choice& choice = rule.choices.back();
    return fault(rule, choice.position, "FE-R50",
                 fmt::format("matching starts at %{}, the last value of the match, so that each of its "
                             "alternatives is an op, not a value, a number or 'none'",
                             choice.name));
  }
  const Reach always = certain(rule);
  const Reach any = rule.choices.empty() ? always : possible(rule);
  rule.roots.push_back({last, 0});
  // `bound`: bound in every match; only this can anchor a further root. `reached`: part of some match.
  Bound bound = always.of(last), reached = any.of(last);
  // Each new root may bind the operand at which another one is found, so repeat until nothing changes.
  for (bool progress = true; progress;) {
    progress = false;
    for (uint32_t term = 0; term < rule.terms.size(); ++term) {
      if (read[term] || reached.terms[term]) continue;
      const auto& operands = rule.terms[term].operands;
      const auto anchor = std::find_if(operands.begin(), operands.end(), [&](const Operand& operand) {
        const bool value =
            operand.kind == Kind::capture || operand.kind == Kind::matched || operand.kind == Kind::choice;
        return value && bound.has(operand);
      });
      if (anchor == operands.end()) continue;
      Operand root;
      root.kind = Kind::matched;
      root.index = term;
      rule.roots.push_back({root, static_cast<uint32_t>(anchor - operands.begin())});
      add(bound, always.of(root));
      add(reached, any.of(root));
      progress = true;
    }
  }
  for (const Choice& choice : rule.choices) {
    if (reached.choices[static_cast<size_t>(&choice - rule.choices.data())]) continue;
    return fault(
        rule, choice.position, "FE-R09",
        fmt::format("nothing reads %{}; alternatives are read by a later term, or are the last value of "
                    "the match",
                    choice.name));
  }
  if (const size_t lost = (~reached.terms).find_first(); lost < rule.terms.size()) {
    const OpTerm& term = rule.terms[lost];
    return fault(rule, term.position, "FE-R09",
                 fmt::format("%{} is read by no later term and shares no operand with the rest of the match; "
                             "the last term must read it, or an operand of it must be one of theirs",
                             term.results[0]));
  }
  for (uint32_t k = 0; k < rule.terms.size(); ++k) {
    const OpTerm& term = rule.terms[k];
    if (!term.region || bound.terms[k]) continue;
    return fault(rule, term.position, "FE-R23",
                 fmt::format("some alternatives do without region {}; a region is in every match", term.op));
  }
  return {};
}

}  // namespace ferrite::core::rewrite
