// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One match turned into its yield.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/ir/graph/infer.h"
#include "core/passes/rewrite/apply.h"
#include "core/passes/rewrite/matcher.h"

namespace ferrite::core::rewrite {

/// Why an application is undone: `category` is for counting, `text` for people.
struct Refusal {
  std::string category, text;
};

/// One match turned into its yield. The caller undoes the edits where it is refused.
class Rewrite {
 public:
  Rewrite(const Rule& rule, const Match& match, graph::Graph& graph, const graph::OpRegistry& registry);
  /// Once. The refusal, where the yield cannot take the place of the match.
  std::optional<Refusal> run();

  /// The new nodes, in order.
  const std::vector<graph::NodeId>& made() const { return new_; }
  /// How many of them regions have.
  size_t copied() const { return copied_; }
  const std::vector<Replaced>& replaced() const { return replaced_; }
  const std::string& text() const { return text_; }

 private:
  /// Before the first root, and before everything that reads a replaced value.
  void find_place();
  graph::ValueId value(const Operand& operand) const;
  /// A value that was there before can be read at the place, and is not about to be replaced.
  std::optional<Refusal> check_order(graph::ValueId id, graph::NodeId reader) const;
  std::optional<Refusal> make(const OpTerm& term);
  graph::NodeSpec new_node(std::string op) const;
  /// The region's ops once more, over another operand and the same side inputs.
  std::optional<Refusal> copy_region(const OpTerm& term);
  /// Numbers have the element type of the first value operand, of the first that is no bool where there is one: in
  /// where(%condition, %x, 0) it is that of %x.
  Result<graph::ValueId> make_literal(const OpTerm& term, const Number& number);
  /// Whether each replaced node was made again as it is: the rule would match it for ever.
  bool same_as_before() const;
  std::optional<Refusal> check(const Replacement& replacement);
  /// Erases what nothing reads any more, last first, and hands names on.
  Result<void> clean_up();

  const Rule& rule_;
  const Match& match_;
  graph::Graph& graph_;
  const graph::OpRegistry& registry_;
  std::vector<graph::NodeId> matched_;  // in order, each once
  std::string origin_, text_;
  graph::NodeId place_;
  std::vector<graph::ValueId> from_;
  std::vector<graph::NodeId> made_;  // as Rule::yields; of a region the last one
  std::vector<graph::NodeId> new_;   // all, in order
  std::vector<Replaced> replaced_;
  size_t copied_ = 0, computed_ = 0;
};

}  // namespace ferrite::core::rewrite
