// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Regions in a graph: the pointwise ops between one value and another, with what else they read.
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

/// More ops than this are no region; it bounds what one look at a graph costs.
inline constexpr size_t max_region_nodes = 256;

/// Whether nodes of the op can be in a region, by what its definition says of it: pointwise, one result, neither random
/// nor with effects.
bool pointwise(const graph::OpInfo& info);

/// What a region stands for in a match: a function of `operand`. Convex: nothing else that it reads depends on `operand`.
struct RegionMatch {
  graph::ValueId operand;
  std::vector<graph::NodeId> nodes;  ///< in order; the last one makes the result
};

/// What the region reads beside its operand, each once, as its nodes do. `visit` takes a ValueId.
void for_each_side(const graph::Graph& graph, const RegionMatch& region,
                   const std::function<void(graph::ValueId)>& visit);
/// The highest rank of a side input; 0 where there is none.
int64_t side_rank(const graph::Graph& graph, const RegionMatch& region);
/// A result of the region's, other than its last, that something outside reads; none where there is none.
graph::ValueId read_outside(const graph::Graph& graph, const RegionMatch& region);

/// Whether a type has the sizes that the region asks for; names that stand for nothing yet are bound in `dims`.
bool bind_dims(const Region& region, const graph::TensorType& type,
               std::vector<std::optional<graph::Dim>>& dims);

/// All pointwise ops above a node that are reached over pointwise ones, the nearest max_region_nodes of them.
class Cone {
 public:
  using IsPointwise = std::function<bool(graph::NodeId)>;
  Cone(const graph::Graph& graph, graph::NodeId last, const IsPointwise& is_pointwise);

  size_t size() const { return nodes_.size(); }
  /// Where a region can begin: all that the ops read but constants, each once. What a node makes in the order of the
  /// graph, then inputs as they are read.
  std::vector<graph::ValueId> begins() const;
  /// The ops that depend on the value over the cone.
  RegionMatch from(graph::ValueId operand) const;

 private:
  const graph::Graph& graph_;
  std::vector<graph::NodeId> nodes_;  // in order
};

/// A side input that depends on the region's operand, as it does over an op that is not pointwise; none where the region is
/// convex. Adds the nodes that it looks at to `steps` and gives up, with none, beyond `limit`.
graph::ValueId dependent_side(const graph::Graph& graph, const RegionMatch& region, size_t& steps,
                              size_t limit);

}  // namespace ferrite::core::rewrite
