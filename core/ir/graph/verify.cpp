// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/ir/graph/verify.h"

#include <algorithm>
#include <set>

#include "core/ir/graph/infer.h"
#include "core/ir/graph/print.h"
#include "core/ir/lexer/lexer.h"
#include "ferrite/counted.hpp"

namespace ferrite::core::graph {
namespace {

class Verifier {
 public:
  Verifier(const Graph& graph, const OpRegistry& registry) : graph_(graph), registry_(registry) {}

  Result<void> node(NodeId id) const {
    auto result = check_node(id);
    if (!result) return at(graph_.describe(id), std::move(result.error()));
    return {};
  }

  Result<void> value(ValueId id) const {
    const Value& value = graph_.value(id);
    for (const Use& use : value.uses) {
      if (!reads(use, id)) {
        return error(FE_EINTERNAL, "FE-G50", "the use list of value {} names a reader that does not read it",
                     text::quote(value.name));
      }
    }
    if (value.type.dtype == DType::none) {
      return error(FE_EINVALID, "FE-G51", "value {} has no type", text::quote(value.name));
    }
    return {};
  }

  Result<void> signature() const {
    for (size_t k = 0; k < graph_.inputs().size(); ++k) {
      const Input& input = graph_.inputs()[k];
      const Value* of = graph_.find(input.value);
      if (!of || of->kind != ValueKind::input || of->result != k) {
        return error(FE_EINTERNAL, "FE-G52", "input {} of graph '{}' is no input value", k, graph_.name());
      }
      if (!input.mutated_by) continue;
      const Value* by = graph_.find(input.mutated_by);
      if (!by || !by->type.same_shape(of->type)) {
        return error(FE_EINVALID, "FE-G52", "input {} is mutated by a value that {}", text::quote(of->name),
                     by ? "has another type: " + type(input.mutated_by) : "is no longer there");
      }
    }
    for (const Output& output : graph_.outputs()) {
      const Value* value = graph_.find(output.value);
      if (!value)
        return error(FE_EINVALID, "FE-G53", "output {} is a value that is no longer there",
                     text::quote(output.name));
      if (!output.alias_of) continue;
      const Value* alias = graph_.find(output.alias_of);
      if (!alias || alias->kind != ValueKind::input || !alias->type.same_shape(value->type)) {
        return error(FE_EINVALID, "FE-G53", "output {} aliases a value that is no input of its type",
                     text::quote(output.name));
      }
    }
    if (graph_.forward_outputs().value_or(0) > graph_.outputs().size()) {
      return error(FE_EINVALID, "FE-G53", "a joint graph with {} has only {} in all",
                   counted(*graph_.forward_outputs(), "forward output"), graph_.outputs().size());
    }
    return {};
  }

 private:
  std::string type(ValueId id) const { return print_type(graph_.symbols(), graph_.type(id)); }

  bool reads(const Use& use, ValueId id) const {
    if (use.user) {
      const Node* user = graph_.find(use.user);
      return user && use.index < user->operands.size() && user->operands[use.index] == id;
    }
    const uint32_t index = use.index & ~Use::mutation;
    if (use.index & Use::mutation)
      return index < graph_.inputs().size() && graph_.inputs()[index].mutated_by == id;
    return index < graph_.outputs().size() && graph_.outputs()[index].value == id;
  }

  Result<void> check_operand(NodeId id, const Node& node, uint32_t k) const {
    const ValueId operand = node.operands[k];
    if (!operand) return {};
    const Value* value = graph_.find(operand);
    if (!value) return error(FE_EINVALID, "FE-G54", "operand {} is a value that is no longer there", k);
    if (value->kind == ValueKind::result && !graph_.comes_before(value->producer, id)) {
      return error(FE_EINVALID, "FE-G55", "operand {} is made by {}, which does not come before", k,
                   graph_.describe(value->producer));
    }
    return {};
  }

  Result<void> check_node(NodeId id) const {
    const Node& node = graph_.node(id);
    for (uint32_t k = 0; k < node.operands.size(); ++k) FE_CHECK(check_operand(id, node, k));
    for (size_t k = 0; k < node.results.size(); ++k) {
      const Value* result = graph_.find(node.results[k]);
      if (!result || result->producer != id || result->result != k) {
        return error(FE_EINTERNAL, "FE-G56", "result {} is not the node's own", k);
      }
      FE_CHECK(value(node.results[k]));
    }

    // complete() adds defaults and converts kinds, and has nothing to do for a node that was made properly.
    auto operands = node.operands;
    auto attributes = node.attributes;
    FE_TRY(const OpInfo* const op, complete(registry_, graph_.op(id), operands, attributes));
    if (attributes != node.attributes) {
      return error(FE_EINVALID, "FE-G15", "attributes are missing, or not of the kind that the op wants");
    }
    FE_TRY(const auto types, infer_types(graph_, *op, operands, attributes));
    if (types.size() != node.results.size()) {
      return error(FE_EINVALID, "FE-G57", "the node has {} where its op gives {}",
                   counted(node.results.size(), "result"), types.size());
    }
    for (size_t k = 0; k < types.size(); ++k) {
      if (!types[k].same_shape(graph_.type(node.results[k]))) {
        return error(FE_EINVALID, "FE-G57", "result {} is {} where its op gives {}", k, type(node.results[k]),
                     print_type(graph_.symbols(), types[k]));
      }
    }
    return {};
  }

  const Graph& graph_;
  const OpRegistry& registry_;
};

}  // namespace

Result<void> verify(const Graph& graph, const OpRegistry& registry) {
  const Verifier verifier(graph, registry);
  // value() checked that each listed use is a real one. Equal totals then prove that no operand misses its
  // use.
  size_t operands = graph.outputs().size(), uses = 0;
  for (const Input& input : graph.inputs()) {
    FE_CHECK(verifier.value(input.value));
    uses += graph.value(input.value).uses.size();
    operands += input.mutated_by ? 1 : 0;
  }
  for (const ValueId constant : graph.constants()) {
    FE_CHECK(verifier.value(constant));
    uses += graph.value(constant).uses.size();
  }
  for (NodeId id = graph.first(); id; id = graph.next(id)) {
    FE_CHECK(verifier.node(id));
    const Node& node = graph.node(id);
    operands += static_cast<size_t>(
        std::count_if(node.operands.begin(), node.operands.end(), [](ValueId v) { return bool(v); }));
    for (const ValueId result : node.results) uses += graph.value(result).uses.size();
  }
  FE_CHECK(verifier.signature());
  if (operands != uses) {
    return error(FE_EINTERNAL, "FE-G50", "graph '{}' has {} operands and outputs but {} uses", graph.name(),
                 operands, uses);
  }
  return {};
}

Result<void> verify(const Graph& graph, const OpRegistry& registry, const Graph::Touched& touched) {
  const Verifier verifier(graph, registry);
  std::set<NodeId> nodes(touched.nodes.begin(), touched.nodes.end());
  for (const ValueId id : touched.values) {
    FE_CHECK(verifier.value(id));
    if (const NodeId producer = graph.value(id).producer) nodes.insert(producer);
    for (const NodeId user : graph.users(id)) nodes.insert(user);
  }
  for (const NodeId id : nodes) {
    if (graph.find(id)) FE_CHECK(verifier.node(id));
  }
  return verifier.signature();
}

}  // namespace ferrite::core::graph
