// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Replaces one match by its yield.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/ir/graph/infer.h"
#include "core/passes/rewrite/apply.h"
#include "core/passes/rewrite/matcher.h"

namespace ferrite::core::rewrite {

/// Why an application is undone: `category` for statistics, `text` for people.
struct Refusal {
  std::string category, text;
};

/// Replaces one match by its yield. If run() refuses, the caller must undo the edits.
class Rewrite {
 public:
  Rewrite(const Rule& rule, const Match& match, graph::Graph& graph, const graph::OpRegistry& registry);
  /// Call once. Returns the refusal if the yield cannot replace the match.
  std::optional<Refusal> run();

  /// The new nodes, in order.
  const std::vector<graph::NodeId>& made() const { return new_; }
  /// The number of new nodes that are copies of regions.
  size_t copied() const { return copied_; }
  const std::vector<Replaced>& replaced() const { return replaced_; }
  const std::string& text() const { return text_; }

 private:
  /// Finds the insertion point: before the first root and before every reader of a replaced value.
  void find_place();
  graph::ValueId value(const Operand& operand) const;
  /// Refuses a value that is not yet defined at the insertion point or is about to be replaced.
  std::optional<Refusal> check_order(graph::ValueId id, graph::NodeId reader) const;
  std::optional<Refusal> make(const OpTerm& term);
  graph::NodeSpec new_node(std::string op) const;
  /// Copies the region's ops, with another operand and the same side inputs.
  std::optional<Refusal> copy_region(const OpTerm& term);
  /// Makes a scalar literal. Its element type is that of the first operand that is not bool, else of the
  /// first: in where(%condition, %x, 0) it is that of %x.
  Result<graph::ValueId> make_literal(const OpTerm& term, const Number& number);
  /// Whether the yield rebuilds each replaced node unchanged: then the rule would match again for ever.
  bool same_as_before() const;
  std::optional<Refusal> check(const Replacement& replacement);
  /// Erases nodes that are no longer read, last first, and transfers their names.
  Result<void> clean_up();

  const Rule& rule_;
  const Match& match_;
  graph::Graph& graph_;
  const graph::OpRegistry& registry_;
  std::vector<graph::NodeId> matched_;  // in order, without duplicates
  std::string origin_, text_;
  graph::NodeId place_;
  std::vector<graph::ValueId> from_;
  std::vector<graph::NodeId> made_;  // as Rule::yields; for a region its last node
  std::vector<graph::NodeId> new_;   // all new nodes, in order
  std::vector<Replaced> replaced_;
  size_t copied_ = 0, computed_ = 0;
};

}  // namespace ferrite::core::rewrite
