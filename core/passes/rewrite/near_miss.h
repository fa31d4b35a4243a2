// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Near misses: which part of a rule failed at which node, what the rule expected and what the graph has.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/ir/graph/graph.h"
#include "core/passes/rewrite/language/rule.h"

namespace ferrite::core::rewrite {

/// The part of a rule at which matching failed: its text, the expectation in words, and what the graph has
/// instead.
struct Miss {
  text::Position position;
  std::string failed, wanted, found;
  size_t held = 0;  ///< number of parts of the rule that matched before this one
  /// The alternatives taken so far: "alternative 2 of %n: mul(%x, rsqrt(%v))".
  std::vector<std::string> alternatives = {};
};

struct Taken;

/// A miss with the rule and the node.
struct NearMiss {
  std::string rule, plugin, phase;
  std::string node;   ///< the node at which matching began; empty if the graph has no node of that op
  std::string place;  ///< the failed part, as file:line:column
  std::string failed, wanted, found;
  size_t held = 0, parts = 0;
  std::vector<std::string> alternatives;  ///< the alternatives taken so far
};

/// The number of parts of a rule that a match fulfils: for each term its op, operands, attributes and `once`;
/// and each condition. Among alternatives the one with the most parts counts.
size_t parts_of(const Rule& rule);

/// The near misses of one compilation: for each rule the nearest `limit`. Not thread-safe.
class NearMisses {
 public:
  /// `rule`: record only this rule; empty: all rules.
  NearMisses(std::string rule, size_t limit) : rule_(std::move(rule)), limit_(limit) {}

  bool wants(std::string_view rule) const { return rule_.empty() || rule == rule_; }
  void add(NearMiss miss);
  /// Records that a rule's phase has run, whatever the result.
  void note_tried(const std::string& rule) { tried_.insert(rule); }
  bool tried(const std::string& rule) const { return tried_.contains(rule); }

  /// The number of misses added.
  size_t count() const { return count_; }
  /// The nearest misses, at most `limit`: sorted by the fraction of parts that matched, then by rule, then in
  /// the order of addition.
  std::vector<NearMiss> nearest() const;

 private:
  std::string rule_;
  size_t limit_ = 0, count_ = 0;
  std::map<std::string, std::vector<NearMiss>> by_rule_;  // nearest first
  std::set<std::string> tried_;
};

/// Describes failed parts of rules in words.
class MissWords {
 public:
  MissWords(const Rule& rule, const graph::Graph& graph) : rule_(rule), graph_(graph) {}

  /// A value that does not match an operand of the term. `bound` is the value to which the operand's name is
  /// already bound, if any.
  Miss operand(const OpTerm& term, const Operand& wanted, graph::ValueId found, graph::ValueId bound) const;
  /// A value whose producer is not the term's op.
  Miss op(const OpTerm& term, graph::ValueId found) const;
  /// No user of the value is the term's op and matches.
  Miss user(const OpTerm& term, graph::ValueId shared) const;
  Miss results(const OpTerm& term, graph::NodeId found) const;
  Miss once(const OpTerm& term, size_t result, graph::NodeId found) const;
  /// `expected` is null if any value would do, `found` if the node has none.
  Miss attribute(const AttributeTerm& wanted, const graph::AttributeValue* expected,
                 const graph::AttributeValue* found) const;
  /// A value that matches none of the alternatives.
  Miss choice(const Choice& choice, graph::ValueId found) const;
  /// An undefined attribute of the yield; `facts` describes the values it is computed from.
  Miss undefined(const AttributeTerm& wanted, std::string facts) const;
  /// The alternatives taken, in words.
  std::vector<std::string> alternatives(const std::vector<Taken>& choices) const;
  Miss condition(const Condition& condition, std::string facts) const;
  /// A region's operand or result with the wrong sizes.
  Miss over(const Region& region, graph::ValueId found) const;
  /// None of the values read by the pointwise ops that lead to the region's result matches its operand.
  Miss begin(const OpTerm& term, graph::ValueId result) const;
  /// A node outside a region that must be `once` reads a value inside.
  Miss outside(const OpTerm& term, graph::ValueId inner) const;
  /// A side input of a region depends on its operand.
  Miss dependent(const OpTerm& term, graph::ValueId side, graph::ValueId operand) const;
  Miss unused() const;

 private:
  std::string value(graph::ValueId id) const;

  const Rule& rule_;
  const graph::Graph& graph_;
};

}  // namespace ferrite::core::rewrite
