// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tools/plugin_check/random_graph.h"

#include <iterator>

#include "core/ir/graph/infer.h"
#include "tools/plugin_check/subject.h"

namespace ferrite::core::plugin_check {

Sampler::Sampler(const graph::OpRegistry& ops, uint64_t seed) : ops_(ops), random_(seed) {
  for (const auto* op : ops_.all()) {
    // The check of ops reports an op whose samples cannot be read.
    const auto samples = samples_of(*op, ops_);
    if (!samples) continue;
    for (const auto& sample : *samples)
      for (const auto node : sample.nodes()) add_pattern(sample, node);
  }
}

void Sampler::add_pattern(const graph::Graph& sample, graph::NodeId id) {
  const auto& node = sample.node(id);
  const auto* op = ops_.find(sample.op(id));
  if (!op || (op->def.flags & (FE_OP_RANDOM | FE_OP_EFFECT)) != 0) return;
  Pattern pattern{op->name, node.attributes, {}};
  for (const auto value : node.operands) {
    auto& operand = pattern.operands.emplace_back();
    operand.absent = !value;
    if (operand.absent) continue;
    operand.type = sample.type(value);
    if (!validate::comparable(operand.type.dtype) || !operand.type.bytes()) return;
    if (sample.value(value).kind != graph::ValueKind::constant) continue;
    const auto bytes = sample.constant_bytes(value);
    if (!bytes) return;
    operand.constant.assign(bytes->begin(), bytes->end());
  }
  patterns_[pattern.op].push_back(std::move(pattern));
}

/// An existing value (not the operand before; of the same dtype where `any_shape`, else of the same type), a
/// new constant or a new input.
graph::ValueId Sampler::operand_for(graph::Graph& graph, const Operand& wanted, bool any_shape,
                                    graph::ValueId previous) {
  if (wanted.absent) return {};
  if (!wanted.constant.empty()) {
    auto made = graph.add_literal(wanted.type, wanted.constant);
    return made ? *made : graph::ValueId();
  }
  std::vector<graph::ValueId> fitting;
  for (const auto value : values_) {
    const auto& type = graph.type(value);
    if (any_shape ? type.dtype == wanted.type.dtype : type.same_shape(wanted.type)) fitting.push_back(value);
  }
  // Usually the latest value, so that chains arise, and seldom the same value twice.
  if (fitting.size() > 1 && random_.chance(0.9)) std::erase(fitting, previous);
  if (!fitting.empty() && random_.chance(0.5) && fitting.back() != previous) return fitting.back();
  if (!fitting.empty() && random_.chance(0.7)) return random_.pick(fitting);
  graph::TensorType type;
  type.dtype = wanted.type.dtype;
  type.dims = wanted.type.dims;
  if (random_.chance(0.3)) {
    auto made = graph.add_literal(type, validate::random_tensor(type, validate::Contents::positive, random_));
    if (made) values_.push_back(*made);
    return made ? *made : graph::ValueId();
  }
  auto made = graph.add_input(fmt::format("x{}", graph.inputs().size()), type);
  if (made) values_.push_back(*made);
  return made ? *made : graph::ValueId();
}

/// Adds the node if its type rule accepts it and its results are small enough to be evaluated.
bool Sampler::make(graph::Graph& graph, graph::NodeSpec spec) {
  spec.origin = fmt::format("n{}", graph.node_count());
  auto made = graph::make_inferred(graph, ops_, std::move(spec));
  if (!made) return false;
  for (const auto result : graph.node(*made).results) {
    const auto& type = graph.type(result);
    if (!validate::comparable(type.dtype) || type.elements().value_or(most_elements + 1) > most_elements)
      return false;
  }
  for (const auto result : graph.node(*made).results) values_.push_back(result);
  return true;
}

bool Sampler::grow(graph::Graph& graph) {
  // Sometimes repeats the pattern of the previous node, because passes look for pairs of a kind. Ops are
  // drawn first, then their patterns, so that an op with many types is not more frequent.
  if (!last_ || !random_.chance(0.2)) {
    const auto of_op =
        std::next(patterns_.begin(), static_cast<std::ptrdiff_t>(random_.below(patterns_.size())));
    last_ = &random_.pick(of_op->second);
  }
  const auto& pattern = *last_;
  const bool any_shape = random_.chance(0.7);
  graph::NodeSpec spec;
  spec.op = pattern.op;
  spec.attributes = pattern.attributes;
  for (const auto& operand : pattern.operands) {
    const auto previous = spec.operands.empty() ? graph::ValueId() : spec.operands.back();
    spec.operands.push_back(operand_for(graph, operand, any_shape, previous));
    if (!operand.absent && !spec.operands.back()) return false;
  }
  return make(graph, std::move(spec));
}

bool Sampler::repeat_node(graph::Graph& graph) {
  const auto nodes = graph.nodes();
  if (nodes.empty()) return false;
  const auto& node = graph.node(random_.pick(nodes));
  graph::NodeSpec spec;
  spec.op = graph.op_name(node.op);
  spec.operands = node.operands;
  spec.attributes = node.attributes;
  return make(graph, std::move(spec));
}

graph::Graph Sampler::next() {
  graph::Graph graph(fmt::format("sample{}", number_++));
  values_.clear();
  last_ = nullptr;
  if (patterns_.empty()) return graph;
  const uint64_t wanted = 4 + random_.below(13);
  for (uint64_t tries = 0; graph.node_count() < wanted && tries < 8 * wanted; ++tries) {
    const auto mark = graph.mark();
    const auto values = values_.size();
    if (random_.chance(0.15) ? repeat_node(graph) : grow(graph)) continue;
    values_.resize(values);
    // Nothing was committed since the mark, so this cannot fail.
    if (!graph.rollback(mark)) break;
  }
  // Most unread values become outputs, and so does one value that is read.
  std::vector<graph::ValueId> unread, read;
  for (const auto node : graph.nodes())
    for (const auto result : graph.node(node).results)
      (graph.value(result).uses.empty() ? unread : read).push_back(result);
  auto add = [&](graph::ValueId value) {
    return graph.add_output(fmt::format("y{}", graph.outputs().size()), value).has_value();
  };
  for (size_t k = 0; k < unread.size(); ++k)
    if (k + 1 == unread.size() || random_.chance(0.85)) add(unread[k]);
  if (!read.empty() && random_.chance(0.5)) add(random_.pick(read));
  graph.commit();
  return graph;
}

}  // namespace ferrite::core::plugin_check
