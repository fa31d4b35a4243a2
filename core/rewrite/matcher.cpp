// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/rewrite/matcher.h"

#include <algorithm>

#include "core/rewrite/search.h"

namespace ferrite::core::rewrite {

using graph::Graph;
using graph::NodeId;
using graph::ValueId;
using Kind = Operand::Kind;

ValueId Match::value(const Graph& graph, const Operand& operand) const {
  if (operand.kind == Kind::capture) return captures[operand.index];
  if (operand.kind != Kind::matched) return {};
  const auto& results = graph.node(nodes[operand.index]).results;
  return operand.result < results.size() ? results[operand.result] : ValueId();
}

Matcher::Matcher(std::vector<const Rule*> rules, const graph::OpRegistry& registry, Predicate predicate)
    : registry_(registry), predicate_(std::move(predicate)) {
  for (const Rule* rule : rules) {
    Prepared prepared{rule, {}, {}};
    std::vector<size_t> depths;
    regions_ = regions_ || !rule->regions.empty();
    for (const OpTerm& term : rule->terms) {
      prepared.ops.push_back(term.region ? any_pointwise : number(term.op));
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

bool Matcher::is_pointwise(const Graph& graph, NodeId node) {
  const uint32_t op = graph.node(node).op;
  if (op >= pointwise_.size()) pointwise_.resize(op + 1);
  std::optional<bool>& known = pointwise_[op];
  if (!known) {
    const graph::OpInfo* info = registry_.find(graph.op_name(op));
    known = info && pointwise(*info);
  }
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

/// Whether the root's operands are made by the ops that the rule wants there, so that most rules for a frequent op are out
/// before a search begins.
bool Matcher::plausible(const Graph& graph, const Prepared& prepared, NodeId root) {
  const uint32_t index = prepared.rule->roots[0].term;
  const OpTerm& term = prepared.rule->terms[index];
  const auto& given = graph.node(root).operands;
  const auto fits = [&](const Operand& wanted, ValueId id) {
    const graph::Value& value = graph.value(id);
    if (wanted.kind == Kind::number) return value.constant != nullptr;
    return value.producer && is_op(graph, prepared, wanted.index, value.producer);
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
  Silent silent;
  return Search(*this, graph, rule, match, silent).run(root);
}

Result<std::optional<Miss>> Matcher::explain(const Graph& graph, uint32_t rule, NodeId root) {
  Match match;
  Recorder recorder;
  FE_TRY(const Outcome outcome, Search(*this, graph, rule, match, recorder).run(root));
  if (outcome == Outcome::found) return std::optional<Miss>();
  return std::move(recorder.furthest);
}

}  // namespace ferrite::core::rewrite
