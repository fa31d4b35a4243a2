// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/passes/joint/min_cut.h"

#include <algorithm>

namespace ferrite::core::joint {

void MinCut::add_edge(Vertex from, Vertex to, int64_t capacity) {
  // An edge and its reverse are added together, at an even and the next odd number: `edge ^ 1` is the other
  // one. Flow along an edge is capacity of its reverse, so that later paths can take it back.
  edges_at_[from].push_back(edges_.size());
  edges_.push_back({to, capacity});
  edges_at_[to].push_back(edges_.size());
  edges_.push_back({from, 0});
}

std::vector<std::optional<size_t>> MinCut::distances() const {
  std::vector<std::optional<size_t>> distance(edges_at_.size());
  std::vector<Vertex> reached{sink};
  distance[sink] = 0;
  // Backwards from the sink, breadth first: from a vertex the search reaches those
  // whose edge to it has capacity left.
  for (size_t k = 0; k < reached.size(); ++k)
    for (const size_t edge : edges_at_[reached[k]]) {
      const Vertex before = edges_[edge].to;
      if (distance[before] || edges_[edge ^ 1].residual == 0) continue;
      distance[before] = *distance[reached[k]] + 1;
      reached.push_back(before);
    }
  return distance;
}

void MinCut::saturate(const std::vector<std::optional<size_t>>& distance) {
  // The next edge to try at each vertex, its current arc: an edge that leads nowhere now leads nowhere until
  // distances change. Each edge is thus given up once, which makes a phase at most vertices times edges.
  std::vector<size_t> next(edges_at_.size());
  std::vector<size_t> path;  // edges from the source
  Vertex at = source;
  for (;;) {
    if (at == sink) {
      // The path takes as much as its narrowest edge; that edge is full, and the search begins anew.
      int64_t flow = infinite;
      for (const size_t edge : path) flow = std::min(flow, edges_[edge].residual);
      for (const size_t edge : path) {
        edges_[edge].residual -= flow;
        edges_[edge ^ 1].residual += flow;
      }
      path.clear();
      at = source;
    }
    bool advanced = false;
    for (; next[at] < edges_at_[at].size(); ++next[at]) {
      const size_t edge = edges_at_[at][next[at]];
      const auto& [to, residual] = edges_[edge];
      if (residual == 0 || !distance[to] || *distance[to] + 1 != *distance[at]) continue;
      path.push_back(edge);
      at = to;
      advanced = true;
      break;
    }
    if (advanced) continue;
    if (path.empty()) return;  // no edge of the source is left
    // A dead end: back along the path, whose last edge is not tried again.
    at = edges_[path.back() ^ 1].to;
    path.pop_back();
    ++next[at];
  }
}

std::vector<bool> MinCut::sink_side() {
  auto distance = distances();
  for (; distance[source]; distance = distances()) saturate(distance);
  // The vertices that still reach the sink are as few as in any minimum cut.
  std::vector<bool> side;
  for (const auto& one : distance) side.push_back(one.has_value());
  return side;
}

}  // namespace ferrite::core::joint
