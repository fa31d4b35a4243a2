// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/passes/rewrite/matcher.h"

#include <algorithm>

#include "core/passes/rewrite/language/structure.h"
#include "core/passes/rewrite/search.h"

namespace ferrite::core::rewrite {

using graph::Graph;
using graph::NodeId;
using graph::ValueId;
using Kind = Operand::Kind;

ValueId Match::value(const Graph& graph, const Operand& operand) const {
  const Operand& last = resolve(operand);
  if (last.kind == Kind::capture) return captures[last.index];
  // A number or `_` binds no name: only the choice knows the value for which its alternative stands.
  if (operand.kind == Kind::choice && (last.kind == Kind::number || last.kind == Kind::any))
    return choices[operand.index].value;
  if (last.kind != Kind::matched || !nodes[last.index]) return {};
  const auto& results = graph.node(nodes[last.index]).results;
  return last.result < results.size() ? results[last.result] : ValueId();
}

const Operand& Match::resolve(const Operand& operand) const {
  const Operand* last = &operand;
  while (last->kind == Kind::choice && choices[last->index].way) last = choices[last->index].way;
  return *last;
}

Matcher::Matcher(std::vector<const Rule*> rules, const graph::OpRegistry& registry, Predicate predicate)
    : registry_(registry), predicate_(std::move(predicate)) {
  for (const Rule* rule : rules) {
    Prepared prepared{rule, {}, {}, terms_of(*rule, rule->roots[0].value)};
    regions_ = regions_ || !rule->regions.empty();
    for (const OpTerm& term : rule->terms) {
      prepared.ops.push_back(term.region ? any_pointwise : number(term.op));
      auto& through = prepared.through.emplace_back();
      for (const std::string& op : term.through) {
        through.push_back(number(op));
        through_[through.back()] = true;
      }
    }
    for (const size_t depth : depths(*rule)) depth_ = std::max(depth_, depth);
    // A root is never a region, so its op has a number and a list in by_root_. Two terms that the first root
    // can be may have the same op, and the rule is listed once.
    for (const uint32_t term : prepared.roots) {
      auto& rules_of_op = by_root_[prepared.ops[term]];
      const auto index = static_cast<uint32_t>(prepared_.size());
      if (rules_of_op.empty() || rules_of_op.back() != index) rules_of_op.push_back(index);
    }
    prepared_.push_back(std::move(prepared));
  }
}

/// Only the constructor may give numbers: op_of() keeps its answers, and an op without a number stays one.
uint32_t Matcher::number(std::string_view op) {
  const auto [found, added] = numbers_.try_emplace(op, static_cast<uint32_t>(numbers_.size()));
  if (added) {
    by_root_.emplace_back();
    through_.push_back(false);
  }
  return found->second;
}

uint32_t Matcher::op_of(const Graph& graph, NodeId node) {
  // `unnamed` is an answer, too, so a slot without an answer needs a value of its own.
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

bool Matcher::is_pointwise(const Graph& graph, NodeId node) {
  const uint32_t op = graph.node(node).op;
  if (op >= pointwise_.size()) pointwise_.resize(op + 1);
  std::optional<bool>& known = pointwise_[op];
  if (!known) {
    const graph::OpInfo* info = registry_.find(graph.op_name(op));
    known = info && pointwise(*info);
  }
  // The number of results belongs to the node and not to the op, so it is not kept.
  return *known && graph.node(node).results.size() == 1;
}

const std::vector<uint32_t>& Matcher::candidates(const Graph& graph, NodeId root) {
  const uint32_t op = op_of(graph, root);
  return op == unnamed ? no_rules_ : by_root_[op];
}

bool Matcher::looks_through(const Graph& graph, NodeId node) {
  const uint32_t op = op_of(graph, node);
  return (op != unnamed && through_[op]) || (regions_ && is_pointwise(graph, node));
}

bool Matcher::may_be(const Graph& graph, const Prepared& prepared, const Operand& operand, ValueId id) {
  if (operand.kind == Kind::any || operand.kind == Kind::capture) return bool(id);
  if (operand.kind == Kind::none) return !id;
  if (operand.kind == Kind::choice) {
    const auto& ways = prepared.rule->choices[operand.index].ways;
    return std::any_of(ways.begin(), ways.end(),
                       [&](const Operand& way) { return may_be(graph, prepared, way, id); });
  }
  if (!id) return false;
  const graph::Value& value = graph.value(id);
  if (operand.kind == Kind::number) return value.constant != nullptr;
  // A term that looks through ops may find its own op further up, so any producer is possible.
  return value.producer &&
         (!prepared.through[operand.index].empty() || is_op(graph, prepared, operand.index, value.producer));
}

bool Matcher::plausible(const Graph& graph, const Prepared& prepared, uint32_t index, NodeId root) {
  const OpTerm& term = prepared.rule->terms[index];
  const auto& given = graph.node(root).operands;
  for (size_t k = 0; k < term.operands.size(); ++k) {
    const Operand& wanted = term.operands[k];
    const auto fits = [&](ValueId id) { return may_be(graph, prepared, wanted, id); };
    // Two operands of the term may fit the same value here: the search decides which one takes it.
    if (term.commutative) {
      if (std::none_of(given.begin(), given.end(), fits)) return false;
    } else if (!fits(k < given.size() ? given[k] : ValueId())) {
      return false;
    }
  }
  return true;
}

Result<Matcher::Outcome> Matcher::match(const Graph& graph, uint32_t rule, NodeId root, Match& match) {
  const Prepared& prepared = prepared_[rule];
  const bool possible = std::any_of(prepared.roots.begin(), prepared.roots.end(), [&](uint32_t term) {
    return is_op(graph, prepared, term, root) && plausible(graph, prepared, term, root);
  });
  if (!possible) return Outcome::none;
  Silent silent;
  return Search(*this, graph, rule, match, silent).run(root);
}

Result<std::optional<Miss>> Matcher::explain(const Graph& graph, uint32_t rule, NodeId root) {
  // Without the filter of match(): the search itself must reach the failing part to record it.
  Match match;
  Recorder recorder;
  FE_TRY(const Outcome outcome, Search(*this, graph, rule, match, recorder).run(root));
  if (outcome == Outcome::found) return std::optional<Miss>();
  return std::move(recorder.furthest);
}

}  // namespace ferrite::core::rewrite
