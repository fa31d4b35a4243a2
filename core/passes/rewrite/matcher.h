// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finds where a rule applies: backtracks over alternatives, over the operand orders of commutative ops, and
// over ops that are looked through.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/ir/graph/graph.h"
#include "core/ir/graph/op_registry.h"
#include "core/passes/rewrite/language/region.h"
#include "core/passes/rewrite/language/rule.h"
#include "core/passes/rewrite/language/splat.h"
#include "core/passes/rewrite/near_miss.h"
#include "core/support/error.h"

namespace ferrite::core::rewrite {

/// The alternative taken for a choice.
struct Taken {
  const Operand* way = nullptr;  ///< null: the match does not use the choice
  graph::ValueId value;          ///< the value at the choice's first use
};

/// The bindings of a rule's names; none for names in alternatives that were not taken. Complete once match()
/// has returned true.
struct Match {
  std::vector<graph::ValueId> captures;  ///< as Rule::captures
  std::vector<graph::NodeId> nodes;      ///< as Rule::terms
  std::vector<Taken> choices;            ///< as Rule::choices
  std::vector<graph::NodeId> looked_through;
  std::vector<std::optional<graph::AttributeValue>> attributes;  ///< as Rule::attributes
  std::vector<RegionMatch> regions;             ///< as Rule::regions; `nodes` has the last node of each
  std::vector<std::optional<graph::Dim>> dims;  ///< as Rule::dims
  /// The computed attributes of Rule::yields, in order; none if the op's default applies.
  std::vector<std::optional<graph::AttributeValue>> computed;

  graph::ValueId value(const graph::Graph& graph, const Operand& operand) const;
  /// The operand after following choices to the alternatives taken; `operand` itself if it is no choice.
  const Operand& resolve(const Operand& operand) const;
  /// The node that makes the operand, which must resolve to `matched`.
  graph::NodeId node(const Operand& operand) const { return nodes[resolve(operand).index]; }
};

/// Matches the rules of one phase on one graph, which may change between calls. Caches the values of
/// constants.
class Matcher {
 public:
  /// Asks a predicate about a match whose values and attributes are bound.
  using Predicate = std::function<Result<bool>(const Rule&, uint32_t predicate, const Match&)>;
  enum class Outcome : uint8_t { none, found, too_many_ways };

  /// `rules` and `registry` outlive it.
  Matcher(std::vector<const Rule*> rules, const graph::OpRegistry& registry, Predicate predicate);

  /// The rules whose first root can be this node's op, in the order given: indices for match().
  const std::vector<uint32_t>& candidates(const graph::Graph& graph, graph::NodeId root);
  /// Finds the first match of the rule with `root` as its first root that fulfils every condition and
  /// replaces a value that has uses. Gives up after max_steps.
  Result<Outcome> match(const graph::Graph& graph, uint32_t rule, graph::NodeId root, Match& match);
  /// Why the rule does not match there: the failure on the path that got furthest. None if it matches.
  Result<std::optional<Miss>> explain(const graph::Graph& graph, uint32_t rule, graph::NodeId root);
  /// Whether any rule looks through this node or may include it in a region.
  bool looks_through(const graph::Graph& graph, graph::NodeId node);
  /// The length, in terms, of the longest path from a root of any rule down to its deepest term.
  size_t depth() const { return depth_; }
  const Rule& rule(uint32_t index) const { return *prepared_[index].rule; }
  size_t size() const { return prepared_.size(); }

  static constexpr size_t max_steps = 50'000;

 private:
  template <class Witness>
  friend class Search;
  static constexpr uint32_t unnamed = UINT32_MAX, any_pointwise = UINT32_MAX - 2;
  /// A rule with ops as numbers, so that comparing a term with a node compares no strings.
  struct Prepared {
    const Rule* rule;
    std::vector<uint32_t> ops;  // as Rule::terms; any_pointwise for a region's last node
    std::vector<std::vector<uint32_t>> through;
    std::vector<uint32_t> roots;  // the terms that the first root can be
  };
  uint32_t number(std::string_view op);
  uint32_t op_of(const graph::Graph& graph, graph::NodeId node);
  bool is_pointwise(const graph::Graph& graph, graph::NodeId node);
  /// Whether the node's op fits the term.
  bool is_op(const graph::Graph& graph, const Prepared& prepared, uint32_t term, graph::NodeId node) {
    const uint32_t op = prepared.ops[term];
    return op == any_pointwise ? is_pointwise(graph, node) : op_of(graph, node) == op;
  }
  /// Whether an operand may match this value, judging by the op of its producer only.
  bool may_be(const graph::Graph& graph, const Prepared& prepared, const Operand& operand,
              graph::ValueId value);
  /// Whether the node's operands may match the term's. A cheap filter: it rejects most rules for a frequent
  /// op before a search begins.
  bool plausible(const graph::Graph& graph, const Prepared& prepared, uint32_t term, graph::NodeId root);

  std::vector<Prepared> prepared_;
  const graph::OpRegistry& registry_;
  Predicate predicate_;
  // By name: the numbers of the ops that rules mention.
  std::unordered_map<std::string_view, uint32_t> numbers_;
  std::vector<uint32_t> of_graph_;              // from the graph's op numbers to these
  std::vector<std::optional<bool>> pointwise_;  // by the graph's op number
  std::vector<std::vector<uint32_t>> by_root_;  // by op number: the rules whose first root can be that op
  std::vector<bool> through_;                   // by op number: whether some rule looks through it
  std::vector<uint32_t> no_rules_;
  SplatCache splats_;
  size_t depth_ = 0;
  bool regions_ = false;  // some rule has a region
};

}  // namespace ferrite::core::rewrite
