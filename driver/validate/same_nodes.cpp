// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "driver/validate/same_nodes.h"

#include <algorithm>
#include <set>

#include "core/ir/graph/print.h"

namespace ferrite::core::validate {

using graph::Graph;
using graph::NodeId;
using graph::ValueId;
using graph::ValueKind;

bool SameNodes::op_and_attributes(NodeId id) const {
  const auto *old = before_.find(id), *now = after_.find(id);
  return old && now && old->op == now->op && old->attributes == now->attributes &&
         old->operands.size() == now->operands.size();
}

bool SameNodes::common(ValueId id) const {
  const auto *old = before_.find(id), *now = after_.find(id);
  if (!old || !now) return false;
  if (old->kind == ValueKind::input) return now->kind == ValueKind::input;
  return old->producer && op_and_attributes(old->producer);
}

void SameNodes::ends_above(const Graph& version, ValueId value, std::vector<ValueId>& ends) const {
  std::set<ValueId> seen;
  std::vector<ValueId> pending;
  const auto push_operands = [&](ValueId of) {
    const NodeId producer = version.value(of).producer;
    if (!producer) return;
    const auto& operands = version.node(producer).operands;
    pending.insert(pending.end(), operands.begin(), operands.end());
  };
  push_operands(value);
  while (!pending.empty()) {
    const ValueId id = pending.back();
    pending.pop_back();
    if (!id || !seen.insert(id).second) continue;
    if (common(id)) {
      if (std::find(ends.begin(), ends.end(), id) == ends.end()) ends.push_back(id);
    } else {
      push_operands(id);
    }
  }
}

std::vector<ValueId> SameNodes::common_ends(ValueId before, ValueId after, size_t levels) const {
  std::vector<ValueId> ends;
  for (const auto& [version, root] : {std::pair(&before_, before), std::pair(&after_, after)}) {
    // An input of the model ends its own path.
    if (version->value(root).kind == ValueKind::input) {
      if (std::find(ends.begin(), ends.end(), root) == ends.end()) ends.push_back(root);
    } else {
      ends_above(*version, root, ends);
    }
  }
  for (size_t level = 0; level < levels; ++level) {
    std::vector<ValueId> further;
    for (const ValueId id : ends) {
      if (before_.value(id).kind == ValueKind::input) {
        if (std::find(further.begin(), further.end(), id) == further.end()) further.push_back(id);
        continue;
      }
      ends_above(before_, id, further);
      ends_above(after_, id, further);
    }
    ends = std::move(further);
  }
  return ends;
}

uint64_t SameNodes::number(const Graph& version, ValueId root) const {
  const bool which = &version == &after_;
  // An explicit stack: a graph may be deeper than the call stack allows.
  std::vector<ValueId> pending{root};
  while (!pending.empty()) {
    const ValueId id = pending.back();
    if (of_value_.contains({which, id})) {
      pending.pop_back();
      continue;
    }
    const graph::Value& value = version.value(id);
    std::string text;
    if (!value.producer) {
      text = fmt::format("{}", id.bits);
      // Small constants are equal if their contents are, larger ones only if they are the same value.
      if (value.constant && value.constant->memory &&
          value.constant->bytes <= graph::Constant::max_literal_bytes)
        text =
            graph::print_type(version.symbols(), value.type) +
            std::string(reinterpret_cast<const char*>(value.constant->memory.get()), value.constant->bytes);
    } else {
      const graph::Node& node = version.node(value.producer);
      const size_t known = pending.size();
      text = fmt::format("{} {}", version.op_name(node.op), value.result);
      for (const ValueId operand : node.operands) {
        const auto found = of_value_.find({which, operand});
        if (!operand)
          text += " _";
        else if (found == of_value_.end())
          pending.push_back(operand);
        else
          text += fmt::format(" {}", found->second);
      }
      // The value stays on the stack until its operands are numbered.
      if (pending.size() > known) continue;
      for (const auto& attribute : node.attributes)
        text += fmt::format(" {}={}", attribute.name, graph::print_attribute_value(attribute.value));
    }
    pending.pop_back();
    of_value_[{which, id}] = numbers_.try_emplace(std::move(text), numbers_.size()).first->second;
  }
  return of_value_.at({which, root});
}

bool SameNodes::equal_by_structure(ValueId before, ValueId after) const {
  return number(before_, before) == number(after_, after);
}

}  // namespace ferrite::core::validate
