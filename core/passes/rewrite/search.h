// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One match attempt of the matcher. Only core/passes/rewrite/matcher.cpp uses it.
#pragma once

#include <algorithm>
#include <boost/container/small_vector.hpp>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "core/passes/rewrite/language/attribute.h"
#include "core/passes/rewrite/language/condition.h"
#include "core/passes/rewrite/matcher.h"
#include "core/passes/rewrite/near_miss.h"

namespace ferrite::core::rewrite {

/// Discards failures. Used for matching.
struct Silent {
  static constexpr bool explains = false;
};
/// Keeps the failure on the path that got furthest, the first one on a tie. Used for explaining.
struct Recorder {
  static constexpr bool explains = true;
  std::optional<Miss> furthest;
};

/// A backtracking search in continuation style: the remaining goals form a linked list through the stack
/// frames. A frame that fails undoes its bindings, so that the frame below can try the next possibility.
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
    match_.choices.assign(rule_.choices.size(), {});
    match_.attributes.assign(rule_.attributes.size(), {});
    match_.regions.assign(rule_.regions.size(), {});
    match_.dims.assign(rule_.dims.size(), {});
  }

  Result<Matcher::Outcome> run(graph::NodeId root) {
    const bool found = first_root(rule_.roots[0].value, root);
    if (error_) return std::move(*error_);
    if (steps_ > Matcher::max_steps) return Matcher::Outcome::too_many_ways;
    return found ? Matcher::Outcome::found : Matcher::Outcome::none;
  }

  graph::ValueId value(const Operand& operand) const override { return match_.value(graph_, operand); }
  const graph::AttributeValue* attribute(uint32_t index) const override {
    const auto& bound = match_.attributes[index];
    return bound ? &*bound : nullptr;
  }
  std::optional<graph::Dim> dimension(uint32_t index) const override { return match_.dims[index]; }
  const RegionMatch* region(uint32_t index) const override { return &match_.regions[index]; }
  Result<bool> predicate(uint32_t index) override { return matcher_.predicate_(rule_, index, match_); }

 private:
  using AttributeValue = graph::AttributeValue;
  using NodeId = graph::NodeId;
  using ValueId = graph::ValueId;
  using Kind = Operand::Kind;

  struct Goal {
    const OpTerm* term;  ///< the term whose operand it is
    const Operand* operand;
    ValueId value;  ///< none: the operand is absent
    const Goal* rest;
  };

  /// An attribute that depends on names that are not bound yet; checked at the end.
  struct Deferred {
    const AttributeTerm* wanted;
    NodeId node;
  };

  /// The expectation for operands beyond those that the rule lists: they are absent.
  static const Operand& absent() {
    static const Operand operand{Kind::none, 0, 0, {}, {}};
    return operand;
  }

  bool give_up() { return error_ || ++steps_ > Matcher::max_steps; }

  /// Counts one more part of the rule as matched on this path.
  void hold() {
    if constexpr (Witness::explains) ++held_;
  }
  /// Records the failure that ends this path; `make` builds the Miss from a MissWords. Always false.
  template <class Make>
  bool miss([[maybe_unused]] const Make& make) {
    if constexpr (Witness::explains) {
      if (witness_.furthest && held_ <= witness_.furthest->held) return false;
      const MissWords words(rule_, graph_);
      witness_.furthest = make(words);
      witness_.furthest->held = held_;
      witness_.furthest->alternatives = words.alternatives(match_.choices);
    }
    return false;
  }

  /// Starts matching with a result of the node as the operand's value.
  bool first_root(const Operand& operand, NodeId id) {
    if (operand.kind == Kind::matched) {
      return matcher_.is_op(graph_, prepared_, operand.index, id) && node(operand.index, id, nullptr);
    }
    Taken& taken = match_.choices[operand.index];
    for (const Operand& way : rule_.choices[operand.index].ways) {
      taken.way = &way;
      if (first_root(way, id)) return true;
      if (give_up()) break;
      held_ = 0;
    }
    taken = {};
    return false;
  }

  /// Fulfils this goal and all after it.
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
    if (operand.kind == Kind::choice) return choose(goal);
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

  /// Tries the alternatives in order; a choice that was made before keeps its alternative.
  bool choose(const Goal& goal) {
    const Choice& choice = rule_.choices[goal.operand->index];
    Taken& taken = match_.choices[goal.operand->index];
    Goal inner = goal;
    if (taken.way) {
      inner.operand = taken.way;
      const bool constant = taken.way->kind == Kind::number || taken.way->kind == Kind::any;
      if (!constant || taken.value == goal.value) return meet(inner);
      return miss([&](const MissWords& words) {
        return words.operand(*goal.term, *goal.operand, goal.value, taken.value);
      });
    }
    const size_t held = held_;
    bool any = false;
    for (const Operand& way : choice.ways) {
      if (give_up()) break;
      if (!matcher_.may_be(graph_, prepared_, way, goal.value)) continue;
      any = true;
      inner.operand = &way;
      taken = {&way, goal.value};
      if (meet(inner)) return true;
      held_ = held;
    }
    taken = {};
    if (any) return false;
    return miss([&](const MissWords& words) { return words.choice(choice, goal.value); });
  }

  /// Matches a value as the term's result, directly or through a chain of ops that are looked through.
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

  /// The input of the value's producer, if the term allows looking through that op.
  ValueId through(uint32_t term, ValueId value) {
    const auto& ops = prepared_.through[term];
    const graph::Value& v = graph_.value(value);
    if (ops.empty() || v.uses.size() != 1) return {};
    if (std::find(ops.begin(), ops.end(), matcher_.op_of(graph_, v.producer)) == ops.end()) return {};
    const auto& operands = graph_.node(v.producer).operands;
    const auto given = std::count_if(operands.begin(), operands.end(), [](ValueId o) { return bool(o); });
    return given == 1 ? operands[0] : ValueId();
  }

  /// Matches a node with the term's op.
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
    const size_t deferred = deferred_.size();
    auto before = match_.attributes;
    match_.nodes[index] = id;
    if (attributes(term, id) && operands(term, node, rest)) return true;
    match_.nodes[index] = {};
    match_.attributes = std::move(before);
    deferred_.resize(deferred);
    return false;
  }

  /// Matches a region that ends at a node. Tries the largest region first; the possible beginnings are those
  /// that its operand allows.
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

  /// A cheap test whether the region's operand may match this value.
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

  bool attributes(const OpTerm& term, NodeId id) {
    return std::all_of(term.attributes.begin(), term.attributes.end(),
                       [&](const AttributeTerm& wanted) { return attribute(wanted, id, true); });
  }

  /// If `defer`, an expression over unbound names is postponed to the end.
  bool attribute(const AttributeTerm& wanted, NodeId id, bool defer) {
    const graph::Node& node = graph_.node(id);
    const graph::Attribute* given = node.find(wanted.name);
    const AttributeValue* value = given ? &given->value : wanted.fallback ? &*wanted.fallback : nullptr;
    std::optional<AttributeValue> found, expected;
    const auto refuse = [&] {
      return miss([&](const MissWords& words) {
        return words.attribute(wanted, expected ? &*expected : nullptr, found ? &*found : nullptr);
      });
    };
    if (!value) return refuse();
    // Only axes are normalised, and thus copied; all other attributes are compared in place.
    if (wanted.flags != 0 || Witness::explains || wanted.computed)
      found = normalised(graph_, node, wanted, *value);
    const AttributeValue& actual = found ? *found : *value;
    if (wanted.capture) {
      auto& bound = match_.attributes[*wanted.capture];
      if (bound && !same(actual, *bound)) {
        expected = bound;
        return refuse();
      }
      if (!bound) bound = actual;
      hold();
      return true;
    }
    if (wanted.computed) {
      if (defer && waits(*wanted.computed)) {
        deferred_.push_back({&wanted, id});
        return true;
      }
      if (wanted.computed->kind == Expression::Kind::list_of && destructures(*wanted.computed)) {
        if (!destructure(wanted, node, actual)) return refuse();
        hold();
        return true;
      }
      auto evaluated = evaluate(graph_, matcher_.splats_, *wanted.computed, *this);
      if (!evaluated) error_ = std::move(evaluated.error());
      if (error_) return false;
      if (*evaluated) expected = converted(std::move(**evaluated), wanted.kind);
      if (expected) expected = normalised(graph_, node, wanted, std::move(*expected));
      if (!expected || !same(*expected, actual)) return refuse();
    } else if (wanted.flags != 0) {
      expected = normalised(graph_, node, wanted, wanted.literal);
      if (!same(*expected, actual)) return refuse();
    } else if (!same(wanted.literal, actual)) {
      if constexpr (Witness::explains) expected = wanted.literal;
      return refuse();
    }
    hold();
    return true;
  }

  /// Whether the expression reads an unbound name, except names that it binds itself.
  bool waits(const Expression& expression) const {
    if (expression.kind != Expression::Kind::list_of) return reads_unbound(expression, *this);
    return std::any_of(expression.children.begin(), expression.children.end(), [&](const Expression& item) {
      return item.kind != Expression::Kind::attribute && reads_unbound(item, *this);
    });
  }
  bool destructures(const Expression& list) const {
    return std::any_of(list.children.begin(), list.children.end(), [&](const Expression& item) {
      return item.kind == Expression::Kind::attribute && !match_.attributes[item.index];
    });
  }

  /// Matches `[$a, 1]` against a list. In a set of axes the known elements are removed first; the names bind
  /// the rest in order.
  bool destructure(const AttributeTerm& wanted, const graph::Node& node, const AttributeValue& actual) {
    const auto& children = wanted.computed->children;
    std::vector<AttributeValue> items = items_of(actual);
    if (items.size() != children.size()) return false;
    std::vector<uint32_t> fresh;
    size_t next = 0;
    for (const Expression& child : children) {
      if (child.kind == Expression::Kind::attribute && !match_.attributes[child.index] &&
          std::find(fresh.begin(), fresh.end(), child.index) == fresh.end()) {
        fresh.push_back(child.index);
        if (wanted.flags == 0) match_.attributes[child.index] = items[next++];
        continue;
      }
      auto known = evaluate(graph_, matcher_.splats_, child, *this);
      if (!known) error_ = std::move(known.error());
      if (error_ || !*known) return false;
      auto item = converted(std::move(**known), kind_of(items[0]));
      if (!item) return false;
      item = normalised(graph_, node, wanted, std::move(*item));
      if (wanted.flags == 0) {
        if (!same(items[next++], *item)) return false;
        continue;
      }
      const auto place =
          std::find_if(items.begin(), items.end(), [&](const auto& i) { return same(i, *item); });
      if (place == items.end()) return false;
      items.erase(place);
    }
    if (wanted.flags == 0) return true;
    if (items.size() != fresh.size()) return false;
    for (size_t k = 0; k < fresh.size(); ++k) match_.attributes[fresh[k]] = items[k];
    return true;
  }

  static std::vector<AttributeValue> items_of(const AttributeValue& list) {
    std::vector<AttributeValue> items;
    std::visit(
        [&](const auto& values) {
          using T = std::decay_t<decltype(values)>;
          if constexpr (std::is_same_v<T, std::vector<int64_t>> || std::is_same_v<T, std::vector<double>> ||
                        std::is_same_v<T, std::vector<std::string>>) {
            for (const auto& value : values) items.emplace_back(value);
          }
        },
        list);
    return items;
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

  /// Matches the roots after the first, each among the users of a bound value, then checks the conditions.
  bool roots() {
    const size_t next = roots_done_ + 1;
    if (next == rule_.roots.size()) return conditions();
    const Root& root = rule_.roots[next];
    const uint32_t term = root.value.index;
    const ValueId shared = value(rule_.terms[term].operands[root.anchor]);
    const size_t held = held_;
    roots_done_ = next;
    bool any = false;
    for (const NodeId user : graph_.users(shared)) {
      if (give_up()) break;
      if (matcher_.op_of(graph_, user) != prepared_.ops[term]) continue;
      if (std::find(match_.nodes.begin(), match_.nodes.end(), user) != match_.nodes.end()) continue;
      any = true;
      if (node(term, user, nullptr)) return true;
      held_ = held;
    }
    roots_done_ = next - 1;
    if (any) return false;
    return miss([&](const MissWords& words) { return words.user(rule_.terms[term], shared); });
  }

  bool conditions() {
    const bool used = std::any_of(
        rule_.replacements.begin(), rule_.replacements.end(),
        [&](const Replacement& replacement) { return !graph_.value(value(replacement.from)).uses.empty(); });
    if (!used) return miss([&](const MissWords& words) { return words.unused(); });
    // Iterate by index: a deferred attribute may bind further names and append to the list.
    for (size_t k = 0; k < deferred_.size(); ++k) {
      if (!attribute(*deferred_[k].wanted, deferred_[k].node, false)) return false;
    }
    for (const Condition& condition : rule_.conditions) {
      // A condition on an alternative that was not taken does not apply.
      if (reads_unbound(condition.expression, *this)) continue;
      auto holding = holds(graph_, matcher_.splats_, condition.expression, *this);
      if (!holding) error_ = std::move(holding.error());
      if (error_) return false;
      if (!*holding) return refuse(condition);
      hold();
    }
    return yields();
  }

  /// Computes the attributes of the yield. An expression over an alternative that was not taken yields to its
  /// `else`, and finally to the op's default. Any other undefined attribute fails the match.
  bool yields() {
    match_.computed.clear();
    for (const OpTerm& term : rule_.yields) {
      for (const AttributeTerm& wanted : term.attributes) {
        if (!wanted.computed) continue;
        std::optional<AttributeValue>& given = match_.computed.emplace_back();
        if (reads_unbound(*wanted.computed, *this)) continue;
        auto value = evaluate(graph_, matcher_.splats_, *wanted.computed, *this);
        if (!value) error_ = std::move(value.error());
        if (error_) return false;
        if (*value) given = converted(std::move(**value), wanted.kind);
        if (!given)
          return miss(
              [&](const MissWords& words) { return words.undefined(wanted, value_text(*wanted.computed)); });
      }
    }
    return true;
  }
  std::string value_text(const Expression& expression) {
    auto found = facts(graph_, matcher_.splats_, rule_, expression, *this);
    return found ? std::move(*found) : std::string();
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
  std::vector<Deferred> deferred_;
  std::optional<Error> error_;
  size_t steps_ = 0, roots_done_ = 0, held_ = 0;
};

}  // namespace ferrite::core::rewrite
