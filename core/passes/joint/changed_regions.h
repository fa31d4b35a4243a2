// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The changes that passes made in a graph, in terms of the model that the graph was imported from.
//
// It serves the phase pre_grad. There the caller, such as the backend of torch.compile, still has to
// differentiate the model: it takes the changes over into its own form of the model, which then becomes the
// joint graph that the other files of this folder divide.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/ir/graph/graph.h"

namespace ferrite::core::joint {

/// Nodes of the model, and the graph that computes the same in their place.
struct ChangedRegion {
  std::vector<std::string> nodes;   ///< names of the model's nodes, in the order of the graph
  std::vector<std::string> passes;  ///< that made the graph's nodes
  graph::Graph graph;               ///< ports have the names of the model's values
};

/// A value that the model has a name for: an input, or a result of one of its nodes.
using NamedValue = std::pair<graph::ValueId, std::string>;

/// The regions, each as small as possible. `after` is a copy of `before` that passes have edited; in
/// `before`, the origin of each node is the one node of the model that it was imported from. Regions without
/// inputs are left out: they only compute constants. FE-G59 if a pass made a value that has to be one of the
/// model's.
Result<std::vector<ChangedRegion>> changed_regions(const graph::Graph& before, const graph::Graph& after,
                                                   const std::vector<NamedValue>& names);

}  // namespace ferrite::core::joint
