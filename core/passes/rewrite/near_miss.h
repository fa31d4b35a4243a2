// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Rules that nearly matched: which part of which rule failed at which node, what it wanted and what is there.
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

/// The part of a rule at which matching ended: as the rule has it, in words, and what is there instead.
struct Miss {
  text::Position position;
  std::string failed, wanted, found;
  size_t held = 0;  ///< parts of the rule that held before it
  /// The alternatives that were taken up to there: "alternative 2 of %n: mul(%x, rsqrt(%v))".
  std::vector<std::string> alternatives = {};
};

struct Taken;

/// A miss with the rule and the node.
struct NearMiss {
  std::string rule, plugin, phase;
  std::string node;   ///< the one at which matching began; empty where the graph has none of its op
  std::string place;  ///< of the failed part: file:line:column
  std::string failed, wanted, found;
  size_t held = 0, parts = 0;
  std::vector<std::string> alternatives;  ///< that were taken up to there
};

/// The parts of a rule that hold in a match: of each term its op, operands, attributes and `once`; and each condition. Of
/// alternatives those of the one with the most.
size_t parts_of(const Rule& rule);

/// What matching came near to during one compilation; of each rule the nearest `limit`. Not thread-safe.
class NearMisses {
 public:
  /// `rule`: only this one is looked at; empty: all.
  NearMisses(std::string rule, size_t limit) : rule_(std::move(rule)), limit_(limit) {}

  bool wants(std::string_view rule) const { return rule_.empty() || rule == rule_; }
  void add(NearMiss miss);
  /// Says that a rule's phase has run, whatever came of it.
  void note_tried(const std::string& rule) { tried_.insert(rule); }
  bool tried(const std::string& rule) const { return tried_.contains(rule); }

  /// How many were added.
  size_t count() const { return count_; }
  /// The nearest of all first, at most `limit`: by the share of parts that held, then by rule and as they were added.
  std::vector<NearMiss> nearest() const;

 private:
  std::string rule_;
  size_t limit_ = 0, count_ = 0;
  std::map<std::string, std::vector<NearMiss>> by_rule_;  // nearest first
  std::set<std::string> tried_;
};

/// Puts parts of a rule that failed into words.
class MissWords {
 public:
  MissWords(const Rule& rule, const graph::Graph& graph) : rule_(rule), graph_(graph) {}

  /// A value that an operand of the term does not take; `bound` is what the operand's name stands for already, if anything.
  Miss operand(const OpTerm& term, const Operand& wanted, graph::ValueId found, graph::ValueId bound) const;
  /// A value that is made by something else than the term.
  Miss op(const OpTerm& term, graph::ValueId found) const;
  /// No user of the value is the term's op and matches.
  Miss user(const OpTerm& term, graph::ValueId shared) const;
  Miss results(const OpTerm& term, graph::NodeId found) const;
  Miss once(const OpTerm& term, size_t result, graph::NodeId found) const;
  /// `expected` is null where any value would do, `found` where there is none.
  Miss attribute(const AttributeTerm& wanted, const graph::AttributeValue* expected,
                 const graph::AttributeValue* found) const;
  /// A value that none of the alternatives can be.
  Miss choice(const Choice& choice, graph::ValueId found) const;
  /// An attribute of the yield that is not defined; `facts` says of what it is computed.
  Miss undefined(const AttributeTerm& wanted, std::string facts) const;
  /// The alternatives that are taken, in words.
  std::vector<std::string> alternatives(const std::vector<Taken>& choices) const;
  Miss condition(const Condition& condition, std::string facts) const;
  /// A region's operand or result has other sizes.
  Miss over(const Region& region, graph::ValueId found) const;
  /// No value that the pointwise ops above the region's result read is what its operand stands for.
  Miss begin(const OpTerm& term, graph::ValueId result) const;
  /// Something outside of a region that is to be `once` reads a value inside.
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
