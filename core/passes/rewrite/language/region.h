// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finds regions in a graph: the pointwise ops between two values, with their other inputs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "core/ir/graph/graph.h"
#include "core/ir/graph/op_registry.h"
#include "core/passes/rewrite/language/rule.h"

namespace ferrite::core::rewrite {

/// The largest region. The limit bounds the cost of examining a graph.
inline constexpr size_t max_region_nodes = 256;

/// Whether nodes of the op can be in a region, according to the op's definition: pointwise, one result,
/// neither random nor with side effects.
bool pointwise(const graph::OpInfo& info);

/// A region in a match: a function of `operand`. It is convex: no other input of the region depends on
/// `operand`.
struct RegionMatch {
  graph::ValueId operand;
  std::vector<graph::NodeId> nodes;  ///< in order; the last one makes the region's result
};

/// Visits the side inputs (inputs other than the operand), each once, in the order of reading. `visit` takes
/// a ValueId.
void for_each_side(const graph::Graph& graph, const RegionMatch& region,
                   const std::function<void(graph::ValueId)>& visit);
/// The highest rank of a side input; 0 without side inputs.
int64_t side_rank(const graph::Graph& graph, const RegionMatch& region);
/// An inner result of the region that a node outside it reads; none if there is none.
graph::ValueId read_outside(const graph::Graph& graph, const RegionMatch& region);

/// Whether a type has the sizes that the region requires. Binds unbound size names in `dims`.
bool bind_dims(const Region& region, const graph::TensorType& type,
               std::vector<std::optional<graph::Dim>>& dims);

/// The pointwise ops from which a node is reached through pointwise ops only: the nearest max_region_nodes of
/// them.
class Cone {
 public:
  using IsPointwise = std::function<bool(graph::NodeId)>;
  Cone(const graph::Graph& graph, graph::NodeId last, const IsPointwise& is_pointwise);

  size_t size() const { return nodes_.size(); }
  /// The values at which a region can begin: all inputs of the ops except constants, without duplicates.
  /// Results of nodes come first, in graph order, then graph inputs in the order of reading.
  std::vector<graph::ValueId> begins() const;
  /// The region of those ops in the cone that depend on the operand.
  RegionMatch from(graph::ValueId operand) const;

 private:
  const graph::Graph& graph_;
  std::vector<graph::NodeId> nodes_;  // in order
};

/// A side input that depends on the region's operand, through an op that is not pointwise; none if the region
/// is convex. Adds the nodes examined to `steps`; beyond `limit` it gives up and returns none.
graph::ValueId dependent_side(const graph::Graph& graph, const RegionMatch& region, size_t& steps,
                              size_t limit);

}  // namespace ferrite::core::rewrite
