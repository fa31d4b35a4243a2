// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finding where a rule applies: backtracking over the operands of commutative ops and over what is looked through.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/graph/graph.h"
#include "core/graph/op_registry.h"
#include "core/rewrite/near_miss.h"
#include "core/rewrite/region.h"
#include "core/rewrite/rule.h"
#include "core/rewrite/splat.h"
#include "core/support/error.h"

namespace ferrite::core::rewrite {

/// What a rule's names stand for. Complete once match() has given true.
struct Match {
  std::vector<graph::ValueId> captures;  ///< as Rule::captures
  std::vector<graph::NodeId> nodes;      ///< as Rule::terms
  std::vector<graph::NodeId> looked_through;
  std::vector<graph::AttributeValue> attributes;  ///< as Rule::attributes
  std::vector<RegionMatch> regions;               ///< as Rule::regions; `nodes` has the last node of each
  std::vector<std::optional<graph::Dim>> dims;    ///< as Rule::dims

  graph::ValueId value(const graph::Graph& graph, const Operand& operand) const;
};

/// The rules of one phase over one graph, which may be edited between calls. Keeps what it read of constants.
class Matcher {
 public:
  /// Asks a predicate about a match whose values are known, its attributes not yet.
  using Predicate = std::function<Result<bool>(const Rule&, uint32_t predicate, const Match&)>;
  enum class Outcome : uint8_t { none, found, too_many_ways };

  /// `rules` and `registry` outlive it.
  Matcher(std::vector<const Rule*> rules, const graph::OpRegistry& registry, Predicate predicate);

  /// Those whose first root is this op, in the order given: indices for match().
  const std::vector<uint32_t>& candidates(const graph::Graph& graph, graph::NodeId root);
  /// The first way in which the rule matches with `root` as its first root, such that every condition holds and a
  /// replaced value is used. Gives up after max_steps.
  Result<Outcome> match(const graph::Graph& graph, uint32_t rule, graph::NodeId root, Match& match);
  /// Why the rule does not match there: what failed on the way that got furthest. None where it does match.
  Result<std::optional<Miss>> explain(const graph::Graph& graph, uint32_t rule, graph::NodeId root);
  /// Whether any rule looks through this node, or takes it into a region.
  bool looks_through(const graph::Graph& graph, graph::NodeId node);
  /// The longest way from a root of a rule down to its deepest term, in terms.
  size_t depth() const { return depth_; }
  const Rule& rule(uint32_t index) const { return *prepared_[index].rule; }
  size_t size() const { return prepared_.size(); }

  static constexpr size_t max_steps = 50'000;

 private:
  template <class Witness>
  friend class Search;
  static constexpr uint32_t unnamed = UINT32_MAX, any_pointwise = UINT32_MAX - 2;
  /// Ops as numbers, so that a term is compared with a node without comparing names.
  struct Prepared {
    const Rule* rule;
    std::vector<uint32_t> ops;  // as Rule::terms; any_pointwise for a region's last node
    std::vector<std::vector<uint32_t>> through;
  };
  uint32_t number(std::string_view op);
  uint32_t op_of(const graph::Graph& graph, graph::NodeId node);
  bool is_pointwise(const graph::Graph& graph, graph::NodeId node);
  /// Whether the term can be this node, by its op.
  bool is_op(const graph::Graph& graph, const Prepared& prepared, uint32_t term, graph::NodeId node) {
    const uint32_t op = prepared.ops[term];
    return op == any_pointwise ? is_pointwise(graph, node) : op_of(graph, node) == op;
  }
  bool plausible(const graph::Graph& graph, const Prepared& prepared, graph::NodeId root);

  std::vector<Prepared> prepared_;
  const graph::OpRegistry& registry_;
  Predicate predicate_;
  std::unordered_map<std::string_view, uint32_t> numbers_;  // of the ops that rules name
  std::vector<uint32_t> of_graph_;                          // by the graph's own number
  std::vector<std::optional<bool>> pointwise_;              // likewise
  std::vector<std::vector<uint32_t>> by_root_;              // by number of the first root's op
  std::vector<bool> through_;                               // by number
  std::vector<uint32_t> no_rules_;
  SplatCache splats_;
  size_t depth_ = 0;
  bool regions_ = false;  // any rule has one
};

}  // namespace ferrite::core::rewrite
