// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/passes/rewrite/language/region.h"

#include <algorithm>
#include <unordered_set>

namespace ferrite::core::rewrite {

using graph::Graph;
using graph::NodeId;
using graph::ValueId;

bool pointwise(const graph::OpInfo& info) {
  return (info.def.flags & FE_OP_POINTWISE) && !(info.def.flags & (FE_OP_RANDOM | FE_OP_EFFECT)) &&
         info.def.results <= 1;
}

void for_each_side(const Graph& graph, const RegionMatch& region, const std::function<void(ValueId)>& visit) {
  std::unordered_set<uint64_t> seen{region.operand.bits};
  for (const NodeId id : region.nodes) {
    const graph::Node& node = graph.node(id);
    for (const ValueId operand : node.operands) {
      if (operand && seen.insert(operand.bits).second) visit(operand);
    }
    // Walking in order visits every reader later.
    seen.insert(node.results[0].bits);
  }
}

int64_t side_rank(const Graph& graph, const RegionMatch& region) {
  int64_t rank = 0;
  for_each_side(graph, region,
                [&](ValueId side) { rank = std::max(rank, static_cast<int64_t>(graph.type(side).rank())); });
  return rank;
}

ValueId read_outside(const Graph& graph, const RegionMatch& region) {
  for (size_t k = 0; k + 1 < region.nodes.size(); ++k) {
    const ValueId result = graph.node(region.nodes[k]).results[0];
    const auto& uses = graph.value(result).uses;
    const bool inside = std::all_of(uses.begin(), uses.end(), [&](const graph::Use& use) {
      return use.user && std::find(region.nodes.begin(), region.nodes.end(), use.user) != region.nodes.end();
    });
    if (!inside) return result;
  }
  return {};
}

bool bind_dims(const Region& region, const graph::TensorType& type,
               std::vector<std::optional<graph::Dim>>& dims) {
  if (!region.over) return true;
  if (region.over->size() != type.dims.size()) return false;
  for (size_t k = 0; k < type.dims.size(); ++k) {
    const RegionDim& wanted = (*region.over)[k];
    if (wanted.kind == RegionDim::Kind::any) continue;
    if (wanted.kind == RegionDim::Kind::size) {
      if (type.dims[k] != wanted.size) return false;
      continue;
    }
    std::optional<graph::Dim>& bound = dims[wanted.name];
    if (!bound) bound = type.dims[k];
    if (*bound != type.dims[k]) return false;
  }
  return true;
}

Cone::Cone(const Graph& graph, NodeId last, const IsPointwise& is_pointwise) : graph_(graph) {
  std::unordered_set<uint64_t> seen{last.bits};
  nodes_.push_back(last);
  // Breadth first, so that the limit keeps the nearest nodes.
  for (size_t k = 0; k < nodes_.size(); ++k) {
    for (const ValueId operand : graph.node(nodes_[k]).operands) {
      if (nodes_.size() == max_region_nodes) break;
      const NodeId producer = operand ? graph.value(operand).producer : NodeId();
      if (producer && is_pointwise(producer) && seen.insert(producer.bits).second) nodes_.push_back(producer);
    }
  }
  std::sort(nodes_.begin(), nodes_.end(), [&](NodeId a, NodeId b) { return graph.comes_before(a, b); });
}

std::vector<ValueId> Cone::begins() const {
  std::vector<ValueId> made, inputs;
  std::unordered_set<uint64_t> seen;
  for (const NodeId node : nodes_) {
    for (const ValueId operand : graph_.node(node).operands) {
      if (!operand || !seen.insert(operand.bits).second) continue;
      const graph::Value& value = graph_.value(operand);
      if (value.kind == graph::ValueKind::constant) continue;
      (value.producer ? made : inputs).push_back(operand);
    }
  }
  std::stable_sort(made.begin(), made.end(), [&](ValueId a, ValueId b) {
    return graph_.comes_before(graph_.value(a).producer, graph_.value(b).producer);
  });
  made.insert(made.end(), inputs.begin(), inputs.end());
  return made;
}

RegionMatch Cone::from(ValueId operand) const {
  RegionMatch region{operand, {}};
  std::unordered_set<uint64_t> inside{operand.bits};
  // In graph order the operands of a node are decided before the node.
  for (const NodeId id : nodes_) {
    const graph::Node& node = graph_.node(id);
    const bool depends = std::any_of(node.operands.begin(), node.operands.end(),
                                     [&](ValueId read) { return read && inside.contains(read.bits); });
    if (!depends) continue;
    region.nodes.push_back(id);
    inside.insert(node.results[0].bits);
  }
  return region;
}

ValueId dependent_side(const Graph& graph, const RegionMatch& region, size_t& steps, size_t limit) {
  const NodeId origin = graph.value(region.operand).producer;
  std::unordered_set<uint64_t> seen;
  std::vector<ValueId> pending;
  ValueId found;
  for_each_side(graph, region, [&](ValueId side) {
    if (found) return;
    pending.assign(1, side);
    while (!pending.empty() && !found && steps <= limit) {
      const NodeId producer = graph.value(pending.back()).producer;
      pending.pop_back();
      // A node before the operand's producer cannot depend on it.
      if (!producer || (origin && !graph.comes_before(origin, producer))) continue;
      if (!seen.insert(producer.bits).second) continue;
      ++steps;
      for (const ValueId read : graph.node(producer).operands) {
        if (read == region.operand) found = side;
        if (read) pending.push_back(read);
      }
    }
  });
  return found;
}

}  // namespace ferrite::core::rewrite
