// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/passes/joint/subgraph.h"

#include <utility>

namespace ferrite::core::joint {

Result<void> Subgraph::add_input(graph::ValueId value, std::string name) {
  if (name.empty()) name = whole_.value(value).name;
  if (name.empty()) name = fmt::format("in{}", images_.size());
  FE_TRY(images_[value], part_.add_input(std::move(name), whole_.type(value)));
  return {};
}

Result<void> Subgraph::add_node(graph::NodeId id) {
  const auto& node = whole_.node(id);
  graph::NodeSpec spec;
  spec.op = whole_.op(id);
  for (const auto operand : node.operands) {
    FE_TRY(const auto mapped, copied(operand));
    spec.operands.push_back(mapped);
  }
  spec.attributes = node.attributes;
  for (const auto result : node.results) spec.types.push_back(whole_.type(result));
  spec.origin = node.origin;
  spec.made_by = node.made_by;
  FE_TRY(const auto made, part_.make(std::move(spec)));
  for (size_t k = 0; k < node.results.size(); ++k) {
    const auto result = part_.node(made).results[k];
    images_.try_emplace(node.results[k], result);  // a saved result is an input already
    const auto& name = whole_.value(node.results[k]).name;
    if (!name.empty() && !part_.find_value(name)) FE_CHECK(part_.set_value_name(result, name));
  }
  return {};
}

Result<void> Subgraph::add_output(graph::ValueId value, std::string name) {
  FE_TRY(const auto mapped, copied(value));
  FE_TRY([[maybe_unused]] const auto number, part_.add_output(std::move(name), mapped));
  return {};
}

Result<graph::ValueId> Subgraph::copied(graph::ValueId id) {
  if (!id) return id;
  if (const auto found = images_.find(id); found != images_.end()) return found->second;
  const auto& value = whole_.value(id);
  if (!value.constant)
    return error(FE_EINTERNAL, "FE-G03", "the part of the graph does not have '{}'", value.name);
  FE_TRY(const auto copy, part_.add_constant(value.type, *value.constant, value.name));
  images_[id] = copy;
  return copy;
}

}  // namespace ferrite::core::joint
