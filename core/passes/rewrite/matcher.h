// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finding where a rule applies: backtracking over alternatives, the operands of commutative ops and what is looked through.
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

/// The alternative that a choice takes.
struct Taken {
  const Operand* way = nullptr;  ///< null: the match does without the choice
  graph::ValueId value;          ///< the one that it was first read as
};

/// What a rule's names stand for; none for those of alternatives that were not taken. Complete once match() has given true.
struct Match {
  std::vector<graph::ValueId> captures;  ///< as Rule::captures
  std::vector<graph::NodeId> nodes;      ///< as Rule::terms
  std::vector<Taken> choices;            ///< as Rule::choices
  std::vector<graph::NodeId> looked_through;
  std::vector<std::optional<graph::AttributeValue>> attributes;  ///< as Rule::attributes
  std::vector<RegionMatch> regions;             ///< as Rule::regions; `nodes` has the last node of each
  std::vector<std::optional<graph::Dim>> dims;  ///< as Rule::dims
  /// The computed attributes of Rule::yields, in order; none where the op's default is taken.
  std::vector<std::optional<graph::AttributeValue>> computed;

  graph::ValueId value(const graph::Graph& graph, const Operand& operand) const;
  /// The operand behind the alternatives taken: `operand` itself where it is no choice.
  const Operand& resolve(const Operand& operand) const;
  /// The node that the operand is a result of, which is `matched` once resolved.
  graph::NodeId node(const Operand& operand) const { return nodes[resolve(operand).index]; }
};

/// The rules of one phase over one graph, which may be edited between calls. Keeps what it read of constants.
class Matcher {
 public:
  /// Asks a predicate about a match whose values and attributes are known.
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
    std::vector<uint32_t> roots;  // the terms that the first root can be
  };
  uint32_t number(std::string_view op);
  uint32_t op_of(const graph::Graph& graph, graph::NodeId node);
  bool is_pointwise(const graph::Graph& graph, graph::NodeId node);
  /// Whether the term can be this node, by its op.
  bool is_op(const graph::Graph& graph, const Prepared& prepared, uint32_t term, graph::NodeId node) {
    const uint32_t op = prepared.ops[term];
    return op == any_pointwise ? is_pointwise(graph, node) : op_of(graph, node) == op;
  }
  /// Whether an operand can be this value, as far as the op that makes it says that.
  bool may_be(const graph::Graph& graph, const Prepared& prepared, const Operand& operand,
              graph::ValueId value);
  /// Whether a term's operands can be those of the node, so that most rules for a frequent op are out before a search begins.
  bool plausible(const graph::Graph& graph, const Prepared& prepared, uint32_t term, graph::NodeId root);

  std::vector<Prepared> prepared_;
  const graph::OpRegistry& registry_;
  Predicate predicate_;
  std::unordered_map<std::string_view, uint32_t> numbers_;  // of the ops that rules name
  std::vector<uint32_t> of_graph_;                          // by the graph's own number
  std::vector<std::optional<bool>> pointwise_;              // likewise
  std::vector<std::vector<uint32_t>> by_root_;              // by number of an op of the first root
  std::vector<bool> through_;                               // by number
  std::vector<uint32_t> no_rules_;
  SplatCache splats_;
  size_t depth_ = 0;
  bool regions_ = false;  // any rule has one
};

}  // namespace ferrite::core::rewrite
