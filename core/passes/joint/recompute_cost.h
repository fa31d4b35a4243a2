// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The cost of computing a node of a graph once more instead of keeping its results.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "core/ir/graph/graph.h"
#include "core/plugin/registry.h"

namespace ferrite::core::joint {

struct RecomputeCost {
  /// The node consists of maps only, so that fusion computes it in the kernels that read its results.
  bool fuses = false;
  /// Random numbers would be others, and effects would happen twice.
  bool never = false;
  bool is_view = false;   ///< it only moves elements
  double operations = 0;  ///< scalar operations, over all points of its loops
};

/// Costs of the nodes of one graph. Ops whose flags say nothing are lowered, each kind of node once. For one
/// thread; graph and registry must outlive it.
class RecomputeCosts {
 public:
  RecomputeCosts(const graph::Graph& graph, const plugin::Registry& registry, std::string_view device)
      : graph_(graph), registry_(registry), device_(device) {}

  RecomputeCost of(graph::NodeId node);

 private:
  /// The cost of the node's loops; that of a node without a lowering is one operation for each byte of its
  /// results.
  RecomputeCost lowered(graph::NodeId node) const;

  const graph::Graph& graph_;
  const plugin::Registry& registry_;
  const std::string device_;
  std::map<std::string, RecomputeCost> known_;  ///< by op, attributes and operand types
};

}  // namespace ferrite::core::joint
