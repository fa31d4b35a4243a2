// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/passes/joint/recompute_cost.h"

#include <algorithm>
#include <tuple>

#include "core/ir/graph/print.h"
#include "core/lower/lower.h"
#include "core/passes/joint/subgraph.h"

namespace ferrite::core::joint {
namespace {

double bytes_of_results(const graph::Graph& graph, graph::NodeId node) {
  double bytes = 0;
  for (const auto result : graph.node(node).results)
    bytes += static_cast<double>(graph.type(result).bytes().value_or(0));
  return bytes;
}

std::string kind_of(const graph::Graph& graph, graph::NodeId node) {
  std::string key(graph.op(node));
  for (const auto& attribute : graph.node(node).attributes)
    key += fmt::format(" {}={}", attribute.name, graph::print_attribute_value(attribute.value));
  for (const auto operand : graph.node(node).operands)
    key += operand ? " " + graph::print_type(graph.symbols(), graph.type(operand)) : " -";
  return key;
}

}  // namespace

RecomputeCost RecomputeCosts::of(graph::NodeId node) {
  const auto* op = registry_.ops().find(graph_.op(node));
  const uint32_t flags = op ? op->def.flags : 0;
  RecomputeCost cost;
  cost.never = (flags & (FE_OP_RANDOM | FE_OP_EFFECT)) != 0;
  cost.is_view = (flags & FE_OP_VIEW) != 0;
  cost.fuses = !cost.never && (flags & (FE_OP_VIEW | FE_OP_POINTWISE)) != 0;
  cost.operations = bytes_of_results(graph_, node);
  if (cost.never || cost.fuses) return cost;
  auto key = kind_of(graph_, node);
  if (const auto found = known_.find(key); found != known_.end()) return found->second;
  return known_.emplace(std::move(key), lowered(node)).first->second;
}

RecomputeCost RecomputeCosts::lowered(graph::NodeId node) const {
  RecomputeCost unknown;
  unknown.operations = bytes_of_results(graph_, node);
  graph::Graph alone("node");
  Subgraph copy(graph_, alone);
  const auto& [operands, results] = std::tie(graph_.node(node).operands, graph_.node(node).results);
  for (const auto operand : operands)
    if (operand && !graph_.value(operand).constant && !copy.has(operand))
      if (!copy.add_input(operand, {})) return unknown;
  if (!copy.add_node(node)) return unknown;
  for (const auto result : results)
    if (!copy.add_output(result, fmt::format("out{}", result.bits))) return unknown;
  // A provider may run nodes that have no lowering; they are not fused with others.
  Ledger discarded;
  if (!lower::decompose(alone, registry_, device_, false, discarded)) return unknown;
  const auto program = lower::lower(alone, registry_, device_, discarded);
  if (!program) return unknown;
  RecomputeCost cost;
  cost.fuses = true;
  for (const auto& statement : program->statements) {
    cost.fuses = cost.fuses && statement.kind == FE_STATEMENT_MAP;
    double points = 1;
    for (const auto& var : statement.vars) points *= static_cast<double>(var.extent);
    cost.operations += points * static_cast<double>(std::max<size_t>(1, statement.ops.size()));
  }
  return cost;
}

}  // namespace ferrite::core::joint
