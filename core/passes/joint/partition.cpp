// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/passes/joint/partition.h"

#include <algorithm>
#include <map>

#include <fmt/ranges.h>

#include "core/ir/graph/print.h"
#include "core/passes/joint/subgraph.h"
#include "ferrite/counted.hpp"

namespace ferrite::core::joint {
namespace {

using graph::Graph;
using graph::NodeId;
using graph::ValueId;

struct Port {
  ValueId value;
  std::string name;
  std::vector<int64_t> order{};  ///< in which the port has the value's dims; empty: their own
  bool is_donated = false;       ///< of an input
};

std::vector<ValueId> values_of(const std::vector<Port>& ports) {
  std::vector<ValueId> values;
  for (const auto& port : ports) values.push_back(port.value);
  return values;
}

std::set<NodeId> nodes_between(const Graph& joint, const std::vector<Port>& inputs,
                               const std::vector<Port>& outputs) {
  const auto given = values_of(inputs);
  return nodes_before(joint, values_of(outputs), {given.begin(), given.end()});
}

graph::TensorType reordered(graph::TensorType type, const std::vector<int64_t>& order) {
  const auto dims = type.dims;
  for (size_t k = 0; k < order.size(); ++k) type.dims[k] = dims[static_cast<size_t>(order[k])];
  return type;
}

/// Adds a node that gives the value with its dims in this order.
Result<ValueId> reordered(Graph& part, ValueId value, const std::vector<int64_t>& order,
                          const std::string& op) {
  graph::NodeSpec spec;
  spec.op = op;
  spec.operands = {value};
  spec.attributes = {{"perm", order}};
  spec.types = {reordered(part.type(value), order)};
  if (const auto producer = part.value(value).producer) spec.origin = part.node(producer).origin;
  spec.made_by = "partition";
  FE_TRY(const auto node, part.make(std::move(spec)));
  return part.node(node).results[0];
}

Result<Graph> part_of(const Graph& joint, std::string_view suffix, const std::vector<Port>& inputs,
                      const std::set<NodeId>& nodes, const std::vector<Port>& outputs,
                      const std::string& reorder_op) {
  std::set<ValueId> read;
  for (const auto id : nodes) {
    const auto& operands = joint.node(id).operands;
    read.insert(operands.begin(), operands.end());
  }
  for (const auto& output : outputs) read.insert(output.value);
  Graph part(fmt::format("{}.{}", joint.name(), suffix), joint.weight_folder());
  Subgraph copy(joint, part);
  for (const auto& input : inputs) {
    if (!read.contains(input.value)) continue;
    const auto number = static_cast<uint32_t>(part.inputs().size());
    if (input.order.empty()) {
      FE_CHECK(copy.add_input(input.value, input.name));
      FE_CHECK(part.set_donated(number, input.is_donated));
      continue;
    }
    std::vector<int64_t> back(input.order.size());
    for (size_t k = 0; k < back.size(); ++k)
      back[static_cast<size_t>(input.order[k])] = static_cast<int64_t>(k);
    FE_TRY(const auto stored, part.add_input(input.name, reordered(joint.type(input.value), input.order)));
    FE_CHECK(part.set_donated(number, input.is_donated));
    FE_TRY(const auto value, reordered(part, stored, back, reorder_op));
    copy.set_image(input.value, value);
  }
  for (NodeId id = joint.first(); id; id = joint.next(id))
    if (nodes.contains(id)) FE_CHECK(copy.add_node(id));
  for (const auto& output : outputs) {
    if (output.order.empty()) {
      FE_CHECK(copy.add_output(output.value, output.name));
      continue;
    }
    FE_TRY(const auto stored, reordered(part, copy.image(output.value), output.order, reorder_op));
    FE_TRY([[maybe_unused]] const auto number, part.add_output(output.name, stored));
  }
  part.commit();
  return part;
}

/// The order in which a value of this type is saved; empty: that of its dims.
std::vector<int64_t> order_of(const PartitionOptions& options, const graph::TensorType& type) {
  const auto found = std::ranges::find(options.orders, type.dims, &SavedOrder::dims);
  return found == options.orders.end() ? std::vector<int64_t>() : found->order;
}

Result<void> check(const Graph& joint, const plugin::Registry& registry, const PartitionOptions& options) {
  if (!joint.forward_outputs())
    return error(FE_EINVALID, "FE-G58", "the graph is not joint: give the number of its forward outputs");
  if (!(options.memory_budget >= 0 && options.memory_budget <= 1))
    return error(FE_EINVALID, "FE-G58", "the memory budget is {}; give a number from 0 to 1",
                 options.memory_budget);
  if (!options.orders.empty() && !registry.ops().find(options.reorder_op))
    return error(FE_EINVALID, "FE-G58", "there is no op '{}' that gives saved values their order",
                 options.reorder_op);
  for (const auto& [dims, order] : options.orders) {
    auto sorted = order;
    std::ranges::sort(sorted);
    bool complete = order.size() == dims.size();
    for (size_t k = 0; complete && k < sorted.size(); ++k) complete = sorted[k] == static_cast<int64_t>(k);
    if (!complete)
      return error(FE_EINVALID, "FE-G58", "[{}] is no order of {}: give each of the dims once",
                   fmt::join(order, ", "), counted(dims.size(), "dim"));
  }
  for (const auto& input : joint.inputs())
    if (input.mutated_by)
      return error(FE_EUNSUPPORTED, "FE-G58",
                   "input '{}' is changed by the graph; return its new contents as an output",
                   joint.value(input.value).name);
  return {};
}

}  // namespace

Result<Partition> partition(const Graph& joint, const plugin::Registry& registry, std::string_view device,
                            const PartitionOptions& options, Ledger& ledger) {
  FE_CHECK(check(joint, registry, options));
  FE_TRY(const auto after_tangents, backward_nodes(joint, options.inputs));
  FE_TRY(const auto saved, choose_saved_values(joint, registry, device, options, after_tangents));

  std::vector<Port> forward_inputs, forward_outputs, backward_inputs, tangents, backward_outputs;
  std::map<ValueId, std::string> names;  // of values that the forward part has at its ports
  for (size_t k = 0; k < joint.inputs().size(); ++k) {
    const Port port{joint.inputs()[k].value, joint.value(joint.inputs()[k].value).name};
    const bool is_tangent = options.inputs[k] == InputKind::tangent;
    (is_tangent ? tangents : forward_inputs).push_back(port);
    if (!is_tangent) names.emplace(port.value, port.name);
  }
  for (const auto& output : joint.outputs()) {
    auto& outputs = forward_outputs.size() < joint.forward_outputs() ? forward_outputs : backward_outputs;
    outputs.push_back({output.value, output.name});
    if (&outputs == &forward_outputs) names.emplace(output.value, output.name);
  }
  const auto is_taken = [&](const std::string& name) {
    return joint.find_value(name) ||
           std::ranges::any_of(joint.outputs(), [&](const auto& output) { return output.name == name; });
  };
  size_t number = 0;
  for (const auto value : saved.values) {
    auto found = names.find(value);
    std::vector<int64_t> order;
    const bool is_only_saved = found == names.end();
    if (is_only_saved) {
      std::string name;
      do name = fmt::format("saved.{}", number++);
      while (is_taken(name));
      forward_outputs.push_back({value, name, order_of(options, joint.type(value))});
      found = names.emplace(value, name).first;
      order = forward_outputs.back().order;
    }
    backward_inputs.push_back({value, found->second, order, options.donate_saved && is_only_saved});
    const auto producer = joint.value(value).producer;
    ledger.add({"partition",
                producer ? joint.describe(producer) : joint.value(value).name,
                found->second,
                "saved",
                {},
                graph::print_type(joint.symbols(), joint.type(value)) +
                    (order.empty() ? "" : fmt::format(", stored in the order {}", fmt::join(order, ", "))),
                static_cast<double>(joint.type(value).bytes().value_or(0))});
  }
  backward_inputs.insert(backward_inputs.end(), tangents.begin(), tangents.end());

  const auto nodes_of_forward = nodes_between(joint, forward_inputs, forward_outputs);
  const auto nodes_of_backward = nodes_between(joint, backward_inputs, backward_outputs);
  FE_TRY(auto forward,
         part_of(joint, "forward", forward_inputs, nodes_of_forward, forward_outputs, options.reorder_op));
  FE_TRY(auto backward, part_of(joint, "backward", backward_inputs, nodes_of_backward, backward_outputs,
                                options.reorder_op));
  const auto again = static_cast<size_t>(
      std::ranges::count_if(nodes_of_backward, [&](NodeId id) { return nodes_of_forward.contains(id); }));
  ledger.add({"partition",
              joint.name(),
              {},
              "divided",
              {},
              fmt::format("{} saved, {} computed again", counted(saved.values.size(), "value"),
                          counted(again, "node")),
              static_cast<double>(saved.bytes)});
  return Partition{std::move(forward), std::move(backward)};
}

}  // namespace ferrite::core::joint
