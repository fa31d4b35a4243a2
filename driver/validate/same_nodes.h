// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The common nodes and values of two versions of a graph. A handle names the same thing in both, because
// copies of a Graph keep handles.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/ir/graph/graph.h"

namespace ferrite::core::validate {

/// Borrows both versions; neither may be edited during its lifetime.
class SameNodes {
 public:
  SameNodes(const graph::Graph& before, const graph::Graph& after) : before_(before), after_(after) {}

  /// For a node in both versions: whether op, attributes and number of operands are unchanged.
  bool op_and_attributes(graph::NodeId node) const;

  /// Whether both values are the same ops over the same values and constants, all the way up.
  bool equal_by_structure(graph::ValueId before, graph::ValueId after) const;

  /// The values of both versions at which the paths up from the two end. At level 0 these are the nearest
  /// ones; each level goes through one more node on every path.
  std::vector<graph::ValueId> common_ends(graph::ValueId before, graph::ValueId after, size_t levels) const;

 private:
  /// Made by a node that is the same in both versions, or an input of both.
  bool common(graph::ValueId value) const;
  void ends_above(const graph::Graph& version, graph::ValueId value, std::vector<graph::ValueId>& ends) const;
  uint64_t number(const graph::Graph& version, graph::ValueId value) const;

  const graph::Graph &before_, &after_;
  mutable std::map<std::string, uint64_t> numbers_;  // by the textual definition of a value
  mutable std::map<std::pair<bool, graph::ValueId>, uint64_t>
      of_value_;  // by version (after_: true) and value
};

}  // namespace ferrite::core::validate
