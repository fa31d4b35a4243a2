// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One attempt of the matcher. Only core/rewrite/matcher.cpp uses it.
#pragma once

#include <algorithm>
#include <boost/container/small_vector.hpp>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "core/rewrite/condition.h"
#include "core/rewrite/matcher.h"
#include "core/rewrite/near_miss.h"

namespace ferrite::core::rewrite {

/// Keeps nothing of what fails: matching.
struct Silent {
  static constexpr bool explains = false;
};
/// Keeps the failure on the way that got furthest, the first of equals: explaining.
struct Recorder {
  static constexpr bool explains = true;
  std::optional<Miss> furthest;
};

/// What is left to match is a list of goals through the stack frames; a frame that fails undoes its bindings, so that the
/// frame below can try another way.
template <class Witness>
class Search final : public Bindings {
 public:
  Search(Matcher& matcher, const graph::Graph& graph, uint32_t rule, Match& match, Witness& witness)
      : matcher_(matcher),
        prepared_(matcher.prepared_[rule]),
        rule_(*prepared_.rule),
        graph_(graph),
        match_(match),
        witness_(witness) {
    match_.captures.assign(rule_.captures.size(), {});
    match_.nodes.assign(rule_.terms.size(), {});
    match_.looked_through.clear();
    match_.attributes.clear();
    match_.regions.assign(rule_.regions.size(), {});
    match_.dims.assign(rule_.dims.size(), {});
    attributes_.assign(rule_.attributes.size(), nullptr);
  }

  Result<Matcher::Outcome> run(graph::NodeId root) {
    const bool found = node(rule_.roots[0].term, root, nullptr);
    if (error_) return std::move(*error_);
    if (steps_ > Matcher::max_steps) return Matcher::Outcome::too_many_ways;
    if (!found) return Matcher::Outcome::none;
    for (const AttributeValue* value : attributes_) match_.attributes.push_back(*value);
    return Matcher::Outcome::found;
  }

  graph::ValueId value(const Operand& operand) const override { return match_.value(graph_, operand); }
  const graph::AttributeValue* attribute(uint32_t index) const override { return attributes_[index]; }
  std::optional<graph::Dim> dimension(uint32_t index) const override { return match_.dims[index]; }
  const RegionMatch* region(uint32_t index) const override { return &match_.regions[index]; }
  Result<bool> predicate(uint32_t index) override { return matcher_.predicate_(rule_, index, match_); }

 private:
  using AttributeValue = graph::AttributeValue;
  using NodeId = graph::NodeId;
  using ValueId = graph::ValueId;
  using Kind = Operand::Kind;

  struct Goal {
    const OpTerm* term;  ///< whose operand it is
    const Operand* operand;
    ValueId value;  ///< none: the operand is absent
    const Goal* rest;
  };

  /// What the rule wants of an operand beyond those that it gives.
  static const Operand& absent() {
    static const Operand operand{Kind::none, 0, 0, {}, {}};
    return operand;
  }

  bool give_up() { return error_ || ++steps_ > Matcher::max_steps; }

  /// One more part of the rule holds on this way.
  void hold() {
    if constexpr (Witness::explains) ++held_;
  }
  /// This way ends here; `make` gives the Miss from a MissWords.
  template <class Make>
  bool miss([[maybe_unused]] const Make& make) {
    if constexpr (Witness::explains) {
      if (witness_.furthest && held_ <= witness_.furthest->held) return false;
      witness_.furthest = make(MissWords(rule_, graph_));
      witness_.furthest->held = held_;
    }
    return false;
  }

  /// Everything from here on.
  bool goals(const Goal* goal) {
    if (give_up()) return false;
    if (!goal) return roots();
    const size_t held = held_;
    if (meet(*goal)) return true;
    held_ = held;
    return false;
  }

  bool meet(const Goal& goal) {
    const Operand& operand = *goal.operand;
    const auto refuse = [&](ValueId bound = {}) {
      return miss(
          [&](const MissWords& words) { return words.operand(*goal.term, operand, goal.value, bound); });
    };
    if (operand.kind == Kind::matched && goal.value) return result(operand, goal.value, goal.rest);
    if (bool(goal.value) == (operand.kind == Kind::none)) return refuse();
    if (operand.kind == Kind::number && !matcher_.splats_.equals(graph_, goal.value, operand.number))
      return refuse();
    if (operand.kind != Kind::capture) {
      if (&operand != &absent()) hold();
      return goals(goal.rest);
    }
    ValueId& bound = match_.captures[operand.index];
    const bool known = bool(bound);
    if (known && bound != goal.value) return refuse(bound);
    bound = goal.value;
    hold();
    if (goals(goal.rest)) return true;
    if (!known) bound = {};
    return false;
  }

  /// The value is the term's result, or made from it by a chain of ops that are looked through.
  bool result(const Operand& operand, ValueId value, const Goal* rest) {
    const size_t depth = match_.looked_through.size(), held = held_;
    for (;;) {
      const graph::Value& v = graph_.value(value);
      const NodeId producer = v.producer, bound = match_.nodes[operand.index];
      const bool fits = producer && v.result == operand.result && (!bound || bound == producer) &&
                        matcher_.is_op(graph_, prepared_, operand.index, producer);
      if (fits) {
        hold();
        const bool taken = bound                               ? goals(rest)
                           : rule_.terms[operand.index].region ? application(operand.index, producer, rest)
                                                               : node(operand.index, producer, rest);
        if (taken) return true;
        held_ = held;
      }
      const ValueId below = producer && !give_up() ? through(operand.index, value) : ValueId();
      if (!below) {
        if (!fits) miss([&](const MissWords& words) { return words.op(rule_.terms[operand.index], value); });
        break;
      }
      match_.looked_through.push_back(producer);
      value = below;
    }
    match_.looked_through.resize(depth);
    return false;
  }

  /// What the value's producer is made from, where the term may be looked for on its other side.
  ValueId through(uint32_t term, ValueId value) {
    const auto& ops = prepared_.through[term];
    const graph::Value& v = graph_.value(value);
    if (ops.empty() || v.uses.size() != 1) return {};
    if (std::find(ops.begin(), ops.end(), matcher_.op_of(graph_, v.producer)) == ops.end()) return {};
    const auto& operands = graph_.node(v.producer).operands;
    const auto given = std::count_if(operands.begin(), operands.end(), [](ValueId o) { return bool(o); });
    return given == 1 ? operands[0] : ValueId();
  }

  /// A node of the term's op.
  bool node(uint32_t index, NodeId id, const Goal* rest) {
    const OpTerm& term = rule_.terms[index];
    const graph::Node& node = graph_.node(id);
    hold();
    if (node.results.size() < term.results.size())
      return miss([&](const MissWords& words) { return words.results(term, id); });
    for (size_t k = 0; term.once && k < term.results.size(); ++k) {
      if (graph_.value(node.results[k]).uses.size() != 1)
        return miss([&](const MissWords& words) { return words.once(term, k, id); });
    }
    if (term.once) hold();
    const std::vector<const AttributeValue*> before =
        rule_.attributes.empty() ? std::vector<const AttributeValue*>() : attributes_;
    match_.nodes[index] = id;
    if (attributes(term, node) && operands(term, node, rest)) return true;
    match_.nodes[index] = {};
    if (!before.empty()) attributes_ = before;
    return false;
  }

  /// A region that ends at a node, the largest first: where it begins is what its operand leaves open.
  bool application(uint32_t index, NodeId last, const Goal* rest) {
    const OpTerm& term = rule_.terms[index];
    const Region& region = rule_.regions[*term.region];
    hold();
    const ValueId result = graph_.node(last).results[0];
    if (term.once && graph_.value(result).uses.size() != 1)
      return miss([&](const MissWords& words) { return words.once(term, 0, last); });
    const auto dims = match_.dims;
    const bool met = bind_dims(region, graph_.type(result), match_.dims);
    const auto bound = met ? match_.dims : dims;
    match_.dims = dims;
    if (!met) return miss([&](const MissWords& words) { return words.over(region, result); });
    const Cone cone(graph_, last, [&](NodeId node) { return matcher_.is_pointwise(graph_, node); });
    steps_ += cone.size();
    const size_t held = held_;
    bool any = false;
    for (const ValueId begin : cone.begins()) {
      if (give_up()) break;
      if (!may_begin(term.operands[0], begin)) continue;
      any = true;
      match_.dims = bound;
      match_.nodes[index] = last;
      if (region_from(index, cone, begin, rest)) return true;
      held_ = held;
    }
    match_.dims = dims;
    match_.nodes[index] = {};
    if (any) return false;
    return miss([&](const MissWords& words) { return words.begin(term, result); });
  }

  /// Whether the region's operand can be this value, as far as that is seen without matching it.
  bool may_begin(const Operand& operand, ValueId begin) {
    const NodeId producer = graph_.value(begin).producer;
    if (operand.kind == Kind::capture) {
      const ValueId bound = match_.captures[operand.index];
      return bound ? bound == begin : !producer || !matcher_.is_pointwise(graph_, producer);
    }
    return producer && (!prepared_.through[operand.index].empty() ||
                        matcher_.is_op(graph_, prepared_, operand.index, producer));
  }

  bool region_from(uint32_t index, const Cone& cone, ValueId begin, const Goal* rest) {
    const OpTerm& term = rule_.terms[index];
    const Region& region = rule_.regions[*term.region];
    RegionMatch& match = match_.regions[*term.region];
    steps_ += cone.size();
    match = cone.from(begin);
    if (!bind_dims(region, graph_.type(begin), match_.dims))
      return miss([&](const MissWords& words) { return words.over(region, begin); });
    if (region.over) hold();
    if (const ValueId inner = term.once ? read_outside(graph_, match) : ValueId())
      return miss([&](const MissWords& words) { return words.outside(term, inner); });
    if (term.once) hold();
    if (const ValueId side = dependent_side(graph_, match, steps_, Matcher::max_steps))
      return miss([&](const MissWords& words) { return words.dependent(term, side, begin); });
    const Goal goal{&term, &term.operands[0], begin, rest};
    return goals(&goal);
  }

  bool attributes(const OpTerm& term, const graph::Node& node) {
    for (const AttributeTerm& wanted : term.attributes) {
      const graph::Attribute* given = node.find(wanted.name);
      const AttributeValue* value = given ? &given->value : wanted.fallback ? &*wanted.fallback : nullptr;
      const AttributeValue* expected = &wanted.literal;
      if (wanted.capture) {
        const AttributeValue*& bound = attributes_[*wanted.capture];
        if (!bound) bound = value;
        expected = bound;
      }
      if (!value || !expected || !(graph::Attribute{{}, *value} == graph::Attribute{{}, *expected})) {
        return miss([&](const MissWords& words) { return words.attribute(wanted, expected, value); });
      }
      hold();
    }
    return true;
  }

  bool operands(const OpTerm& term, const graph::Node& node, const Goal* rest) {
    constexpr size_t usual = 4;
    const size_t count = std::max(term.operands.size(), node.operands.size());
    boost::container::small_vector<uint32_t, usual> order(count);
    std::iota(order.begin(), order.end(), uint32_t{0});
    boost::container::small_vector<Goal, usual> list(count);
    do {
      for (size_t k = count; k-- > 0;) {
        const ValueId given = order[k] < node.operands.size() ? node.operands[order[k]] : ValueId();
        list[k] = {&term, k < term.operands.size() ? &term.operands[k] : &absent(), given,
                   k + 1 < count ? &list[k + 1] : rest};
      }
      if (goals(count == 0 ? rest : list.data())) return true;
    } while (term.commutative && !give_up() && std::next_permutation(order.begin(), order.end()));
    return false;
  }

  /// The roots after the first, each among the users of a value that is bound, then the conditions.
  bool roots() {
    const size_t next = roots_done_ + 1;
    if (next == rule_.roots.size()) return conditions();
    const Root& root = rule_.roots[next];
    const ValueId shared = value(rule_.terms[root.term].operands[root.anchor]);
    const size_t held = held_;
    roots_done_ = next;
    bool any = false;
    for (const NodeId user : graph_.users(shared)) {
      if (give_up()) break;
      if (matcher_.op_of(graph_, user) != prepared_.ops[root.term]) continue;
      if (std::find(match_.nodes.begin(), match_.nodes.end(), user) != match_.nodes.end()) continue;
      any = true;
      if (node(root.term, user, nullptr)) return true;
      held_ = held;
    }
    roots_done_ = next - 1;
    if (any) return false;
    return miss([&](const MissWords& words) { return words.user(rule_.terms[root.term], shared); });
  }

  bool conditions() {
    const bool used = std::any_of(
        rule_.replacements.begin(), rule_.replacements.end(),
        [&](const Replacement& replacement) { return !graph_.value(value(replacement.from)).uses.empty(); });
    if (!used) return miss([&](const MissWords& words) { return words.unused(); });
    for (const Condition& condition : rule_.conditions) {
      auto holding = holds(graph_, matcher_.splats_, condition.expression, *this);
      if (!holding) error_ = std::move(holding.error());
      if (error_) return false;
      if (!*holding) return refuse(condition);
      hold();
    }
    return true;
  }

  bool refuse([[maybe_unused]] const Condition& condition) {
    if constexpr (Witness::explains) {
      auto found = facts(graph_, matcher_.splats_, rule_, condition.expression, *this);
      if (!found) error_ = std::move(found.error());
      if (error_) return false;
      return miss([&](const MissWords& words) { return words.condition(condition, std::move(*found)); });
    }
    return false;
  }

  Matcher& matcher_;
  const Matcher::Prepared& prepared_;
  const Rule& rule_;
  const graph::Graph& graph_;
  Match& match_;
  Witness& witness_;
  std::vector<const AttributeValue*> attributes_;
  std::optional<Error> error_;
  size_t steps_ = 0, roots_done_ = 0, held_ = 0;
};

}  // namespace ferrite::core::rewrite
