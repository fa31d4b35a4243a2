// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "driver/validate/part.h"

#include <algorithm>

#include "core/ir/graph/infer.h"

namespace ferrite::core::validate {

using graph::Graph;
using graph::NodeId;
using graph::ValueId;
using graph::ValueKind;

namespace {

/// The nodes between the outputs and the cut, in the order of the whole graph.
std::vector<NodeId> cone_of(const Graph& whole, std::span<const ValueId> outputs,
                            const std::set<ValueId>& cut) {
  std::vector<NodeId> cone;
  std::set<NodeId> seen;
  std::vector<ValueId> pending(outputs.begin(), outputs.end());
  while (!pending.empty()) {
    const ValueId id = pending.back();
    pending.pop_back();
    if (!id || cut.contains(id)) continue;
    const NodeId producer = whole.value(id).producer;
    if (!producer || !seen.insert(producer).second) continue;
    cone.push_back(producer);
    const auto& operands = whole.node(producer).operands;
    pending.insert(pending.end(), operands.begin(), operands.end());
  }
  std::sort(cone.begin(), cone.end(), [&](NodeId a, NodeId b) { return whole.comes_before(a, b); });
  return cone;
}

class Extraction {
 public:
  Extraction(const Graph& whole, const graph::OpRegistry& registry, const Part& part)
      : whole_(whole), registry_(registry), part_(part), result_(whole.name()) {}

  Result<Graph> run() {
    for (const ValueId id : part_.inputs) FE_CHECK(add_input(id));
    const std::set<ValueId> cut(part_.inputs.begin(), part_.inputs.end());
    for (const NodeId id : cone_of(whole_, part_.outputs, cut)) FE_CHECK(add_node(id));
    for (size_t k = 0; k < part_.outputs.size(); ++k) {
      FE_TRY(const ValueId value, image(part_.outputs[k]));
      FE_TRY([[maybe_unused]] const auto number, result_.add_output(fmt::format("out{}", k), value));
    }
    result_.commit();
    return std::move(result_);
  }

 private:
  std::string name_for(ValueId id) {
    const std::string& name = whole_.value(id).name;
    return name.empty() || result_.find_value(name) ? fmt::format("v{}", image_.size()) : name;
  }

  Result<void> add_input(ValueId id) {
    graph::TensorType type = whole_.type(id);
    for (graph::Dim& dim : type.dims) {
      if (!graph::is_static(dim))
        return error(FE_EUNSUPPORTED, "FE-R34", "a value has a size that is not known");
      if (const auto other = part_.sizes.find(dim); other != part_.sizes.end()) dim = other->second;
    }
    std::string name = name_for(id);
    while (result_.find_value(name)) name += "_";
    FE_TRY(image_[id], result_.add_input(std::move(name), std::move(type)));
    return {};
  }

  Result<void> add_node(NodeId id) {
    const graph::Node& node = whole_.node(id);
    graph::NodeSpec spec;
    spec.op = whole_.op(id);
    for (const ValueId operand : node.operands) {
      FE_TRY(const ValueId mapped, image(operand));
      spec.operands.push_back(mapped);
    }
    spec.attributes = node.attributes;
    spec.origin = node.origin;
    FE_TRY(const NodeId made, graph::make_inferred(result_, registry_, std::move(spec)));
    const auto& results = result_.node(made).results;
    if (results.size() != node.results.size())
      return error(FE_EINVALID, "FE-R35", "'{}' has another number of results", whole_.op(id));
    for (size_t k = 0; k < results.size(); ++k) {
      image_.try_emplace(node.results[k], results[k]);  // one of them may be an input of the part
      const std::string& name = whole_.value(node.results[k]).name;
      if (!name.empty() && !result_.find_value(name)) FE_CHECK(result_.set_value_name(results[k], name));
    }
    return {};
  }

  Result<ValueId> image(ValueId id) {
    if (!id) return id;
    if (const auto found = image_.find(id); found != image_.end()) return found->second;
    const graph::Value& value = whole_.value(id);
    if (value.kind != ValueKind::constant)
      return error(FE_EINTERNAL, "FE-R35", "the part does not have '{}'", value.name);
    FE_TRY(const auto bytes, whole_.constant_bytes(id));
    const bool taken = value.name.empty() || result_.find_value(value.name);
    FE_TRY(const ValueId copy, result_.add_literal(value.type, bytes, taken ? std::string() : value.name));
    image_[id] = copy;
    return copy;
  }

  const Graph& whole_;
  const graph::OpRegistry& registry_;
  const Part& part_;
  Graph result_;
  std::map<ValueId, ValueId> image_;
};

}  // namespace

Result<Graph> extract(const Graph& whole, const graph::OpRegistry& registry, const Part& part) {
  return Extraction(whole, registry, part).run();
}

std::vector<ValueId> ends_of(const Graph& whole, std::span<const ValueId> roots,
                             const std::set<ValueId>& cut) {
  std::vector<ValueId> ends;
  std::set<ValueId> seen;
  const auto visit = [&](ValueId id) {
    if (!id || !seen.insert(id).second) return;
    if (whole.value(id).kind == ValueKind::input || cut.contains(id)) ends.push_back(id);
  };
  for (const ValueId root : roots) visit(root);
  for (const NodeId node : cone_of(whole, roots, cut))
    for (const ValueId operand : whole.node(node).operands) visit(operand);
  return ends;
}

}  // namespace ferrite::core::validate
