// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/rewrite/matcher.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "core/rewrite/condition.h"

namespace ferrite::core::rewrite {

using graph::AttributeValue;
using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::ValueId;
using Kind = Operand::Kind;

ValueId Match::value(const Graph& graph, const Operand& operand) const {
  if (operand.kind == Kind::capture) return captures[operand.index];
  if (operand.kind != Kind::matched) return {};
  const auto& results = graph.node(nodes[operand.index]).results;
  return operand.result < results.size() ? results[operand.result] : ValueId();
}

/// One attempt. What is left to match is a list of goals through the stack frames; a frame that fails undoes its bindings, so
/// that the frame below can try another way.
class Search final : public Bindings {
 public:
  Search(Matcher& matcher, const Graph& graph, uint32_t rule, Match& match)
      : matcher_(matcher),
        prepared_(matcher.prepared_[rule]),
        rule_(*prepared_.rule),
        graph_(graph),
        match_(match) {
    match_.captures.assign(rule_.captures.size(), {});
    match_.nodes.assign(rule_.terms.size(), {});
    match_.looked_through.clear();
    match_.attributes.clear();
    attributes_.assign(rule_.attributes.size(), nullptr);
  }

  Result<Matcher::Outcome> run(NodeId root) {
    const bool found = node(rule_.roots[0].term, root, nullptr);
    if (error_) return std::move(*error_);
    if (steps_ > Matcher::max_steps) return Matcher::Outcome::too_many_ways;
    if (!found) return Matcher::Outcome::none;
    for (const AttributeValue* value : attributes_) match_.attributes.push_back(*value);
    return Matcher::Outcome::found;
  }

  ValueId value(const Operand& operand) const override { return match_.value(graph_, operand); }
  const AttributeValue* attribute(uint32_t index) const override { return attributes_[index]; }
  Result<bool> predicate(uint32_t index) override { return matcher_.predicate_(rule_, index, match_); }

 private:
  struct Goal {
    const Operand* operand;
    ValueId value;  ///< none: the operand is absent
    const Goal* rest;
  };

  bool give_up() { return error_ || ++steps_ > Matcher::max_steps; }

  /// Everything from here on.
  bool goals(const Goal* goal) {
    if (give_up()) return false;
    if (!goal) return roots();
    const Operand& operand = *goal->operand;
    if (!goal->value) return operand.kind == Kind::none && goals(goal->rest);
    switch (operand.kind) {
      case Kind::any: return goals(goal->rest);
      case Kind::number:
        return matcher_.splats_.equals(graph_, goal->value, operand.number) && goals(goal->rest);
      case Kind::capture: {
        ValueId& bound = match_.captures[operand.index];
        if (bound) return bound == goal->value && goals(goal->rest);
        bound = goal->value;
        if (goals(goal->rest)) return true;
        match_.captures[operand.index] = {};
        return false;
      }
      case Kind::matched: return result(operand, goal->value, goal->rest);
      default: return false;
    }
  }

  /// The value is the term's result, or made from it by a chain of ops that are looked through.
  bool result(const Operand& operand, ValueId value, const Goal* rest) {
    const size_t depth = match_.looked_through.size();
    const auto& through = prepared_.through[operand.index];
    for (;;) {
      const graph::Value& v = graph_.value(value);
      const NodeId producer = v.producer;
      if (!producer) break;
      const NodeId bound = match_.nodes[operand.index];
      if (v.result == operand.result &&
          (bound ? bound == producer && goals(rest) : node(operand.index, producer, rest))) {
        return true;
      }
      if (give_up() || through.empty()) break;
      const uint32_t op = matcher_.op_of(graph_, producer);
      if (std::find(through.begin(), through.end(), op) == through.end()) break;
      if (graph_.value(value).uses.size() != 1) break;
      const auto& operands = graph_.node(producer).operands;
      if (std::count_if(operands.begin(), operands.end(), [](ValueId o) { return bool(o); }) != 1 ||
          !operands[0])
        break;
      match_.looked_through.push_back(producer);
      value = operands[0];
    }
    match_.looked_through.resize(depth);
    return false;
  }

  bool node(uint32_t index, NodeId id, const Goal* rest) {
    const OpTerm& term = rule_.terms[index];
    if (matcher_.op_of(graph_, id) != prepared_.ops[index]) return false;
    const Node& node = graph_.node(id);
    if (node.results.size() < term.results.size()) return false;
    for (size_t k = 0; term.once && k < term.results.size(); ++k) {
      if (graph_.value(node.results[k]).uses.size() != 1) return false;
    }
    const std::vector<const AttributeValue*> before =
        rule_.attributes.empty() ? std::vector<const AttributeValue*>() : attributes_;
    match_.nodes[index] = id;
    if (attributes(term, node) && operands(term, node, rest)) return true;
    match_.nodes[index] = {};
    if (!before.empty()) attributes_ = before;
    return false;
  }

  bool attributes(const OpTerm& term, const Node& node) {
    for (const AttributeTerm& wanted : term.attributes) {
      const graph::Attribute* given = node.find(wanted.name);
      const AttributeValue* value = given ? &given->value : wanted.fallback ? &*wanted.fallback : nullptr;
      if (!value) return false;
      const AttributeValue* expected = &wanted.literal;
      if (wanted.capture) {
        const AttributeValue*& bound = attributes_[*wanted.capture];
        if (!bound) bound = value;
        expected = bound;
      }
      if (!(graph::Attribute{{}, *value} == graph::Attribute{{}, *expected})) return false;
    }
    return true;
  }

  bool operands(const OpTerm& term, const Node& node, const Goal* rest) {
    const size_t count = std::max(term.operands.size(), node.operands.size());
    std::vector<ValueId> given(node.operands);
    given.resize(count);
    static const Operand absent{Kind::none, 0, 0, {}, {}};
    std::vector<size_t> order(count);
    std::iota(order.begin(), order.end(), size_t{0});
    std::vector<Goal> list(count);
    do {
      for (size_t k = count; k-- > 0;) {
        list[k] = {k < term.operands.size() ? &term.operands[k] : &absent, given[order[k]],
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
    roots_done_ = next;
    for (const NodeId user : graph_.users(shared)) {
      if (give_up()) break;
      if (matcher_.op_of(graph_, user) != prepared_.ops[root.term]) continue;
      if (std::find(match_.nodes.begin(), match_.nodes.end(), user) != match_.nodes.end()) continue;
      if (node(root.term, user, nullptr)) return true;
    }
    roots_done_ = next - 1;
    return false;
  }

  bool conditions() {
    const bool used = std::any_of(
        rule_.replacements.begin(), rule_.replacements.end(),
        [&](const Replacement& replacement) { return !graph_.value(value(replacement.from)).uses.empty(); });
    if (!used) return false;
    for (const Condition& condition : rule_.conditions) {
      auto holding = holds(graph_, matcher_.splats_, condition.expression, *this);
      if (!holding) error_ = std::move(holding.error());
      if (error_ || !*holding) return false;
    }
    return true;
  }

  Matcher& matcher_;
  const Matcher::Prepared& prepared_;
  const Rule& rule_;
  const Graph& graph_;
  Match& match_;
  std::vector<const AttributeValue*> attributes_;
  std::optional<Error> error_;
  size_t steps_ = 0, roots_done_ = 0;
};

Matcher::Matcher(std::vector<const Rule*> rules, Predicate predicate) : predicate_(std::move(predicate)) {
  for (const Rule* rule : rules) {
    Prepared prepared{rule, {}, {}};
    std::vector<size_t> depths;
    for (const OpTerm& term : rule->terms) {
      prepared.ops.push_back(number(term.op));
      auto& through = prepared.through.emplace_back();
      for (const std::string& op : term.through) {
        through.push_back(number(op));
        through_[through.back()] = true;
      }
      size_t below = 0;
      for (const Operand& operand : term.operands) {
        if (operand.kind == Kind::matched) below = std::max(below, depths[operand.index]);
      }
      depths.push_back(below + 1);
      depth_ = std::max(depth_, below + 1);
    }
    by_root_[prepared.ops[rule->roots[0].term]].push_back(static_cast<uint32_t>(prepared_.size()));
    prepared_.push_back(std::move(prepared));
  }
}

uint32_t Matcher::number(std::string_view op) {
  const auto [found, added] = numbers_.try_emplace(op, static_cast<uint32_t>(numbers_.size()));
  if (added) {
    by_root_.emplace_back();
    through_.push_back(false);
  }
  return found->second;
}

uint32_t Matcher::op_of(const Graph& graph, NodeId node) {
  constexpr uint32_t unasked = UINT32_MAX - 1;
  const uint32_t op = graph.node(node).op;
  if (op >= of_graph_.size()) of_graph_.resize(op + 1, unasked);
  uint32_t& known = of_graph_[op];
  if (known == unasked) {
    const auto found = numbers_.find(graph.op_name(op));
    known = found == numbers_.end() ? unnamed : found->second;
  }
  return known;
}

const std::vector<uint32_t>& Matcher::candidates(const Graph& graph, NodeId root) {
  const uint32_t op = op_of(graph, root);
  return op == unnamed ? no_rules_ : by_root_[op];
}

bool Matcher::looks_through(const Graph& graph, NodeId node) {
  const uint32_t op = op_of(graph, node);
  return op != unnamed && through_[op];
}

/// Whether the root's operands are made by the ops that the rule wants there, so that most rules for a frequent op are out
/// before a search begins.
bool Matcher::plausible(const Graph& graph, const Prepared& prepared, NodeId root) {
  const uint32_t index = prepared.rule->roots[0].term;
  const OpTerm& term = prepared.rule->terms[index];
  const auto& given = graph.node(root).operands;
  const auto fits = [&](const Operand& wanted, ValueId id) {
    const graph::Value& value = graph.value(id);
    if (wanted.kind == Kind::number) return value.constant != nullptr;
    return value.producer && op_of(graph, value.producer) == prepared.ops[wanted.index];
  };
  for (size_t k = 0; k < term.operands.size(); ++k) {
    const Operand& wanted = term.operands[k];
    const bool certain = wanted.kind == Kind::number ||
                         (wanted.kind == Kind::matched && prepared.through[wanted.index].empty());
    if (!certain) continue;
    if (term.commutative) {
      if (std::none_of(given.begin(), given.end(), [&](ValueId id) { return fits(wanted, id); }))
        return false;
    } else if (k >= given.size() || !fits(wanted, given[k])) {
      return false;
    }
  }
  return true;
}

Result<Matcher::Outcome> Matcher::match(const Graph& graph, uint32_t rule, NodeId root, Match& match) {
  if (!plausible(graph, prepared_[rule], root)) return Outcome::none;
  return Search(*this, graph, rule, match).run(root);
}

}  // namespace ferrite::core::rewrite
