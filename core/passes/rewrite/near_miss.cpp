// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/passes/rewrite/near_miss.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "core/ir/graph/print.h"
#include "core/passes/rewrite/language/print_rules.h"
#include "core/passes/rewrite/language/splat.h"
#include "core/passes/rewrite/matcher.h"

namespace ferrite::core::rewrite {

using graph::NodeId;
using graph::ValueId;
using Kind = Operand::Kind;

namespace {

/// Whether `a` came nearer than `b`: compares the fractions of matched parts by cross-multiplication.
bool nearer(const NearMiss& a, const NearMiss& b) { return a.held * b.parts > b.held * a.parts; }

std::string times(size_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

}  // namespace

size_t parts_of(const Rule& rule) {
  // A choice counts as its longest alternative, and a term shared by several values counts once. The bound
  // prevents overflow when choices nest.
  constexpr size_t most = 1 << 20;
  std::vector<size_t> weights(rule.terms.size()), choices(rule.choices.size());
  // The counterpart of Search::hold(): the op, each operand, each attribute and `once`.
  const auto own = [](const OpTerm& term) {
    return 1 + term.operands.size() + term.attributes.size() + (term.once ? 1 : 0);
  };
  const auto weight = [&](const Operand& operand) {
    return operand.kind == Kind::matched  ? weights[operand.index]
           : operand.kind == Kind::choice ? choices[operand.index]
                                          : 0;
  };
  // One pass suffices: terms and choices read only what precedes them, and `terms_before` gives the common
  // order of the two lists.
  size_t next = 0;
  const auto choices_before = [&](size_t terms) {
    for (; next < choices.size() && rule.choices[next].terms_before <= terms; ++next) {
      for (const Operand& way : rule.choices[next].ways) choices[next] = std::max(choices[next], weight(way));
    }
  };
  for (size_t k = 0; k < weights.size(); ++k) {
    choices_before(k);
    weights[k] = own(rule.terms[k]);
    for (const Operand& operand : rule.terms[k].operands)
      weights[k] = std::min(most, weights[k] + weight(operand));
  }
  choices_before(weights.size());

  // A weight has a shared term once for each reader, so it only selects the longest alternative. The walk
  // counts each term once.
  size_t parts = rule.conditions.size();
  for (const Region& region : rule.regions) parts += region.over ? 1 : 0;
  std::vector<bool> counted(rule.terms.size());
  std::vector<const Operand*> pending;
  for (const Root& root : rule.roots) pending.push_back(&root.value);
  while (!pending.empty()) {
    const Operand& operand = *pending.back();
    pending.pop_back();
    if (operand.kind == Kind::choice) {
      const auto& ways = rule.choices[operand.index].ways;
      pending.push_back(&*std::max_element(ways.begin(), ways.end(), [&](const Operand& a, const Operand& b) {
        return weight(a) < weight(b);
      }));
    } else if (operand.kind == Kind::matched && !counted[operand.index]) {
      counted[operand.index] = true;
      parts += own(rule.terms[operand.index]);
      for (const Operand& read : rule.terms[operand.index].operands) pending.push_back(&read);
    }
  }
  return parts;
}

void NearMisses::add(NearMiss miss) {
  ++count_;
  auto& kept = by_rule_[miss.rule];
  // Behind equally near misses, so that the order of addition decides between them.
  const auto place = std::upper_bound(kept.begin(), kept.end(), miss, nearer);
  if (place == kept.end() && kept.size() >= limit_) return;
  kept.insert(place, std::move(miss));
  if (kept.size() > limit_) kept.pop_back();
}

std::vector<NearMiss> NearMisses::nearest() const {
  std::vector<NearMiss> all;
  for (const auto& [rule, misses] : by_rule_) all.insert(all.end(), misses.begin(), misses.end());
  // Among equally near misses, a stable sort keeps the order of the map, and within a rule that of addition.
  std::stable_sort(all.begin(), all.end(), nearer);
  if (all.size() > limit_) all.resize(limit_);
  return all;
}

std::string MissWords::value(ValueId id) const {
  if (!id) return "no operand";
  const graph::Value& value = graph_.value(id);
  if (value.producer) return graph_.describe(value.producer);
  const std::string name = value.name.empty() ? "" : " " + text::sigil_name('%', value.name);
  if (value.kind == graph::ValueKind::input) return "the input" + name;
  std::string text =
      fmt::format("the constant{} of {}", name, graph::print_type(graph_.symbols(), value.type));
  if (const auto number = SplatCache().number(graph_, id))
    text += fmt::format(", every element {}", number->integer ? std::to_string(*number->integer)
                                                              : text::format_number(number->value));
  return text;
}

Miss MissWords::operand(const OpTerm& term, const Operand& wanted, ValueId found, ValueId bound) const {
  // `none` may be an operand beyond those that the rule lists, which has no position in the rule's text.
  Miss miss{
      wanted.kind == Kind::none ? term.position : wanted.position, print(rule_, wanted), {}, value(found), 0};
  switch (wanted.kind) {
    case Kind::none: miss.wanted = fmt::format("'{}' without this operand", term.op); break;
    case Kind::number:
      miss.wanted = fmt::format("a constant of which every element is {}", miss.failed);
      break;
    case Kind::capture:
    case Kind::choice:
      if (bound) {
        miss.wanted = fmt::format("the value that {} stands for already, {}", miss.failed, value(bound));
        break;
      }
      // A free name takes any value, so here the operand is absent.
      [[fallthrough]];
    default: miss.wanted = fmt::format("an operand of '{}'", term.op);
  }
  return miss;
}

Miss MissWords::op(const OpTerm& term, ValueId found) const {
  // The op may be the right one: then it is another result of it, or not the node that an earlier use bound.
  const NodeId producer = graph_.value(found).producer;
  return {term.position, print(rule_, term),
          term.region ? std::string("a value made by a pointwise op")
          : producer && graph_.op(producer) == term.op
              ? fmt::format("the result of '{}' that the rest of the match reads", term.op)
              : fmt::format("a value made by '{}'", term.op),
          value(found), 0};
}

Miss MissWords::user(const OpTerm& term, ValueId shared) const {
  std::vector<std::string> ops;
  for (const NodeId user : graph_.users(shared)) {
    const std::string op = fmt::format("'{}'", graph_.op(user));
    if (std::find(ops.begin(), ops.end(), op) == ops.end()) ops.push_back(op);
  }
  constexpr size_t most = 8;
  if (ops.size() > most) {
    ops.resize(most);
    ops.emplace_back("…");
  }
  return {term.position, print(rule_, term),
          fmt::format("another '{}' among the readers of {}", term.op, value(shared)),
          ops.empty() ? "no reader" : fmt::format("readers {}", fmt::join(ops, ", ")), 0};
}

Miss MissWords::results(const OpTerm& term, NodeId found) const {
  return {term.position, print(rule_, term), fmt::format("at least {}", times(term.results.size(), "result")),
          times(graph_.node(found).results.size(), "result"), 0};
}

Miss MissWords::once(const OpTerm& term, size_t result, NodeId found) const {
  const auto& uses = graph_.value(graph_.node(found).results[result]).uses;
  const auto outputs = static_cast<size_t>(
      std::count_if(uses.begin(), uses.end(), [](const graph::Use& use) { return !use.user; }));
  std::string what = times(uses.size(), "use");
  if (outputs != 0) what += fmt::format(", of which {} as an output of the graph", outputs);
  return {term.position, fmt::format("{} once", print(rule_, term)),
          fmt::format("one use of {}", text::sigil_name('%', term.results[result])), what, 0};
}

Miss MissWords::attribute(const AttributeTerm& wanted, const graph::AttributeValue* expected,
                          const graph::AttributeValue* found) const {
  const auto words = [&](const graph::AttributeValue* value, const char* otherwise) {
    return value ? fmt::format("{} = {}", wanted.name, graph::print_attribute_value(*value))
                 : fmt::format("{} attribute '{}'", otherwise, wanted.name);
  };
  return {wanted.position, print(rule_, wanted), words(expected, "an"), words(found, "no"), 0};
}

Miss MissWords::choice(const Choice& choice, ValueId found) const {
  std::vector<std::string> wanted;
  for (const Operand& way : choice.ways) {
    std::string what = way.kind == Kind::matched
                           ? fmt::format("a value made by '{}'", rule_.terms[way.index].op)
                       : way.kind == Kind::none ? "no operand"
                                                : print(rule_, way);
    if (std::find(wanted.begin(), wanted.end(), what) == wanted.end()) wanted.push_back(std::move(what));
  }
  return {choice.position, print(rule_, choice), fmt::format("{}", fmt::join(wanted, " or ")), value(found),
          0};
}

Miss MissWords::undefined(const AttributeTerm& wanted, std::string facts) const {
  if (facts.empty()) facts = "nothing that it depends on";
  return {wanted.position, print(rule_, wanted),
          fmt::format("{} for attribute '{}'", graph::attribute_kind_name(wanted.kind), wanted.name),
          std::move(facts), 0};
}

std::vector<std::string> MissWords::alternatives(const std::vector<Taken>& choices) const {
  std::vector<std::string> words;
  for (size_t k = 0; k < choices.size(); ++k) {
    if (!choices[k].way) continue;
    const Choice& choice = rule_.choices[k];
    words.push_back(fmt::format("alternative {} of {}{}: {}", choices[k].way - choice.ways.data() + 1,
                                choice.ways.size(),
                                choice.name.empty() ? "" : " of " + text::sigil_name('%', choice.name),
                                print(rule_, *choices[k].way)));
  }
  return words;
}

Miss MissWords::condition(const Condition& condition, std::string facts) const {
  if (facts.empty()) facts = "nothing that it depends on";
  return {condition.position, condition.text, fmt::format("that {}", condition.text), std::move(facts), 0};
}

Miss MissWords::over(const Region& region, ValueId found) const {
  return {region.position, print_over(rule_, region),
          fmt::format("an operand and a result of region {} with these sizes",
                      text::sigil_name('%', region.name)),
          fmt::format("{} of {}", value(found), graph::print_type(graph_.symbols(), graph_.type(found))), 0};
}

Miss MissWords::begin(const OpTerm& term, ValueId result) const {
  return {term.position, print(rule_, term),
          fmt::format("pointwise ops from {} on", print(rule_, term.operands[0])), value(result), 0};
}

Miss MissWords::outside(const OpTerm& term, ValueId inner) const {
  return {term.position, fmt::format("{} once", print(rule_, term)), "values that only the region reads",
          fmt::format("another reader of {}", value(inner)), 0};
}

Miss MissWords::dependent(const OpTerm& term, ValueId side, ValueId operand) const {
  return {term.position, print(rule_, term),
          fmt::format("side inputs that do not depend on {}", value(operand)),
          fmt::format("{}, which does", value(side)), 0};
}

Miss MissWords::unused() const {
  return {rule_.position, "yield", "a reader of what is replaced", "nothing reads it", 0};
}

}  // namespace ferrite::core::rewrite
