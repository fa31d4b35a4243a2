// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The order of the nodes: a linked list whose 64-bit keys increase along it, so that two nodes compare in
// constant time.
// List labelling after Bender, Cole, Demaine, Farach-Colton and Zito, "Two simplified algorithms for
// maintaining order in a list" (2002): if no key is free between two neighbours, the smallest aligned range
// of keys that is sparse enough is respaced evenly. An insertion costs O(log n) amortised, at any position.
#include "core/ir/graph/graph.h"

namespace ferrite::core::graph {
namespace {
constexpr uint64_t append_step = uint64_t{1} << 32;
}

void Graph::link(NodeId id, uint32_t before) {
  auto& nodes = node_arena_;
  Node& node = at(id);
  node.next_ = before;
  node.previous_ = before == nil ? tail_ : nodes[before].previous_;
  const auto gap = [&](uint64_t& low, uint64_t& high) {
    low = node.previous_ == nil ? 0 : nodes[node.previous_].key_;
    high = before == nil ? UINT64_MAX : nodes[before].key_;
    return high - low;
  };
  uint64_t low = 0, high = 0;
  if (gap(low, high) < 2) {
    relabel(before == nil ? node.previous_ : before);
    gap(low, high);
  }
  const bool room = before == nil && high - low > append_step;
  node.key_ = room ? low + append_step : low + (high - low) / 2;
  (node.previous_ == nil ? head_ : nodes[node.previous_].next_) = id.index();
  (before == nil ? tail_ : nodes[before].previous_) = id.index();
  ++node_count_;
}

void Graph::unlink(NodeId id) {
  auto& nodes = node_arena_;
  const Node& node = at(id);
  (node.previous_ == nil ? head_ : nodes[node.previous_].next_) = node.next_;
  (node.next_ == nil ? tail_ : nodes[node.next_].previous_) = node.previous_;
  --node_count_;
}

void Graph::relabel(uint32_t around) {
  auto& nodes = node_arena_;
  uint32_t first = around, last = around;
  uint64_t count = 1;
  double allowed = 1;  // the density limit falls by 1/1.4 with each doubling of the range
  for (int bits = 1; bits <= 64; ++bits) {
    allowed *= 2 / 1.4;
    const uint64_t mask = bits == 64 ? UINT64_MAX : (uint64_t{1} << bits) - 1;
    const uint64_t low = nodes[around].key_ & ~mask, high = low | mask;
    for (uint32_t k; (k = nodes[first].previous_) != nil && nodes[k].key_ >= low; first = k) ++count;
    for (uint32_t k; (k = nodes[last].next_) != nil && nodes[k].key_ <= high; last = k) ++count;
    const uint64_t step = mask / (count + 1);
    if (static_cast<double>(count) > allowed || step < 4) continue;
    uint64_t key = low;
    for (uint32_t k = first;; k = nodes[k].next_) {
      nodes[k].key_ = key += step;
      if (k == last) return;
    }
  }
}

bool Graph::comes_before(NodeId a, NodeId b) const {
  const Node *left = find(a), *right = find(b);
  return left && right && left->key_ < right->key_;
}

}  // namespace ferrite::core::graph
