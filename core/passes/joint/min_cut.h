// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A minimum cut of a directed graph with capacities, by Dinic's algorithm.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

namespace ferrite::core::joint {

class MinCut {
 public:
  /// The capacity of edges that are never cut. Each path from source to sink needs an edge of less.
  static constexpr int64_t infinite = std::numeric_limits<int64_t>::max() / 4;
  using Vertex = size_t;
  static constexpr Vertex source = 0, sink = 1;

  explicit MinCut(size_t vertices) : edges_at_(vertices) {}

  void add_edge(Vertex from, Vertex to, int64_t capacity);

  /// By vertex: whether it is on the sink's side. Of all minimum cuts this is the one next to the sink. Call
  /// it once.
  std::vector<bool> sink_side();

 private:
  /// Its reverse has the number that differs in the last bit.
  struct Edge {
    Vertex to;
    int64_t residual;
  };
  /// The number of edges from each vertex to the sink, over edges with residual capacity; none: there is no
  /// path.
  std::vector<std::optional<size_t>> distances() const;
  /// Adds flow until no shortest path is left.
  void saturate(const std::vector<std::optional<size_t>>& distance);

  std::vector<Edge> edges_;
  std::vector<std::vector<size_t>> edges_at_;  ///< numbers of the edges that leave a vertex
};

}  // namespace ferrite::core::joint
