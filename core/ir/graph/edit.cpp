// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The edits of the graph. Each edit checks, then changes the graph, then records its inverse. The journal is
// undone in reverse order, so an inverse finds exactly the state that its edit left.
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

#include "core/ir/graph/graph.h"
#include "core/ir/graph/journal.h"
#include "core/ir/lexer/lexer.h"
#include "ferrite/counted.hpp"

namespace ferrite::core::graph {

template <class Undo>
void Graph::record(NodeId node, ValueId value, Undo undo) {
  ++revision_;
  journal_->entries.push_back({node, value, std::move(undo)});
}

// Use lists.

uint32_t& Graph::slot_of(const Use& use) {
  if (use.user) return at(use.user).use_slots_[use.index];
  if (use.index & Use::mutation) return mutation_slots_[use.index & ~Use::mutation];
  return output_slots_[use.index];
}

ValueId& Graph::target_of(const Use& use) {
  if (use.user) return at(use.user).operands[use.index];
  if (use.index & Use::mutation) return inputs_[use.index & ~Use::mutation].mutated_by;
  return outputs_[use.index].value;
}

uint32_t Graph::add_use(ValueId value, Use use) {
  auto& uses = at(value).uses;
  uses.push_back(use);
  return slot_of(use) = static_cast<uint32_t>(uses.size() - 1);
}

void Graph::remove_use(ValueId value, uint32_t slot) {
  auto& uses = at(value).uses;
  // Swap with the last use, so that removal takes O(1). insert_use() is the exact inverse, which rollback
  // needs.
  if (slot + 1 != uses.size()) {
    uses[slot] = uses.back();
    slot_of(uses[slot]) = slot;
  }
  uses.pop_back();
}

void Graph::insert_use(ValueId value, uint32_t slot, Use use) {
  auto& uses = at(value).uses;
  uses.push_back(use);
  if (slot + 1 != uses.size()) {
    std::swap(uses[slot], uses.back());
    slot_of(uses.back()) = static_cast<uint32_t>(uses.size() - 1);
  }
  slot_of(use) = slot;
}

/// Makes the use read `to`, and records the change.
void Graph::redirect(const Use& use, ValueId to) {
  const ValueId from = target_of(use);
  if (from == to) return;
  const uint32_t slot = slot_of(use);
  if (from) remove_use(from, slot);
  target_of(use) = to;
  if (to) add_use(to, use);
  record(use.user, {}, [use, from, to, slot](Graph& graph) {
    if (to) graph.remove_use(to, graph.slot_of(use));
    graph.target_of(use) = from;
    if (from) graph.insert_use(from, slot, use);
  });
}

// Values and names.

ValueId Graph::add_value(Value value) {
  const std::string name = value.name;
  const ValueId id = value_arena_.allocate(tag_, std::move(value));
  if (!name.empty()) value_names_.emplace(name, id);
  return id;
}

void Graph::drop_value(ValueId id) {
  if (!at(id).name.empty()) value_names_.erase(at(id).name);
  value_arena_.kill(id);
}

std::string Graph::free_name(std::string name) const {
  if (name.empty() || !value_names_.contains(name)) return name;
  for (uint64_t number = 1;; ++number) {
    std::string candidate = fmt::format("{}.{}", name, number);
    if (!value_names_.contains(candidate)) return candidate;
  }
}

Result<void> Graph::check_type(const TensorType& type) const {
  if (type.dtype == DType::none) return error(FE_EINVALID, "FE-G06", "a tensor type without an element type");
  // Below this bound, element counts, byte counts and offsets fit 64 bits.
  constexpr int64_t most_elements = int64_t{1} << 56;
  int64_t elements = 1;
  for (const Dim dim : type.dims) {
    if (!symbols_.valid(dim)) {
      return error(FE_EINVALID, "FE-G06", "dimension code {} names no expression of graph '{}'", dim, name_);
    }
    if (is_static(dim) && (__builtin_mul_overflow(elements, dim, &elements) || elements > most_elements)) {
      return error(FE_EINVALID, "FE-G62", "a tensor of [{}] would have more than 2^56 elements",
                   fmt::join(type.dims, ","));
    }
  }
  const Layout& layout = type.layout;
  if (layout.kind > FE_LAYOUT_OPAQUE ||
      (layout.kind == FE_LAYOUT_STRIDED && layout.strides.size() != type.rank())) {
    return error(FE_EINVALID, "FE-G06", "a strided layout needs {}, one for each dimension, not {}",
                 counted(type.rank(), "stride"), layout.strides.size());
  }
  for (const Block& block : layout.blocks) {
    if (block.dim >= type.rank() || block.size < 0) {
      return error(FE_EINVALID, "FE-G06", "block {}:{} of the layout is of no dimension, or negative",
                   block.dim, block.size);
    }
  }
  return {};
}

// Signature.

Result<ValueId> Graph::add_input(std::string name, TensorType type) {
  FE_CHECK(check_type(type));
  if (value_names_.contains(name)) {
    return error(FE_EINVALID, "FE-G05", "the name {} is taken in graph '{}'", text::quote(name), name_);
  }
  Value value;
  value.kind = ValueKind::input;
  value.name = std::move(name);
  value.type = std::move(type);
  value.result = static_cast<uint32_t>(inputs_.size());
  const ValueId id = add_value(std::move(value));
  inputs_.push_back({id, {}, false});
  mutation_slots_.push_back(0);
  record({}, id, [id](Graph& graph) {
    graph.inputs_.pop_back();
    graph.mutation_slots_.pop_back();
    graph.drop_value(id);
    graph.value_arena_.release(id.index());
  });
  return id;
}

Result<void> Graph::set_mutated_by(uint32_t input, ValueId value) {
  if (input >= inputs_.size() || (value && !find(value)))
    return stale(input < inputs_.size() ? "value" : "input");
  redirect({{}, input | Use::mutation}, value);
  return {};
}

Result<void> Graph::set_donated(uint32_t input, bool donated) {
  if (input >= inputs_.size()) return stale("input");
  record({}, {}, [input, old = inputs_[input].donated](Graph& graph) { graph.inputs_[input].donated = old; });
  inputs_[input].donated = donated;
  return {};
}

Result<uint32_t> Graph::add_output(std::string name, ValueId value) {
  if (!find(value)) return stale("value");
  if (std::any_of(outputs_.begin(), outputs_.end(),
                  [&](const Output& output) { return output.name == name; })) {
    return error(FE_EINVALID, "FE-G05", "graph '{}' has an output {} already", name_, text::quote(name));
  }
  const auto index = static_cast<uint32_t>(outputs_.size());
  outputs_.push_back({std::move(name), value, {}, {}});
  output_slots_.push_back(0);
  add_use(value, {{}, index});
  record({}, {}, [index](Graph& graph) {
    graph.remove_use(graph.outputs_[index].value, graph.output_slots_[index]);
    graph.outputs_.pop_back();
    graph.output_slots_.pop_back();
  });
  return index;
}

Result<void> Graph::set_output(uint32_t output, ValueId value) {
  if (output >= outputs_.size() || !find(value)) return stale(output < outputs_.size() ? "value" : "output");
  redirect({{}, output}, value);
  return {};
}

Result<void> Graph::set_output_place(uint32_t output, ValueId alias_of, std::vector<int64_t> strides) {
  if (output >= outputs_.size()) return stale("output");
  if (alias_of && (!find(alias_of) || value(alias_of).kind != ValueKind::input)) return stale("input");
  if (!strides.empty() && strides.size() != type(outputs_[output].value).rank()) {
    return error(FE_EINVALID, "FE-G06", "output {} has {} dimensions, not {} strides",
                 text::quote(outputs_[output].name), type(outputs_[output].value).rank(), strides.size());
  }
  Output& place = outputs_[output];
  record({}, {}, [output, old_alias = place.alias_of, old_strides = place.strides](Graph& graph) {
    graph.outputs_[output].alias_of = old_alias;
    graph.outputs_[output].strides = old_strides;
  });
  place.alias_of = alias_of;
  place.strides = std::move(strides);
  return {};
}

void Graph::add_guard(Guard guard) {
  symbols_.add_guard(std::move(guard));
  // Guards are only appended, so the count identifies the state to restore.
  record({}, {}, [count = symbols_.guards().size() - 1](Graph& graph) { graph.symbols_.drop_guards(count); });
}

// Constants.

Result<ValueId> Graph::add_literal(TensorType type, std::span<const std::byte> bytes, std::string name) {
  Constant constant;
  constant.kind = bytes.size() <= Constant::max_literal_bytes ? FE_CONSTANT_LITERAL : FE_CONSTANT_WEIGHT;
  constant.bytes = bytes.size();
  std::shared_ptr<std::byte[]> copy(new std::byte[bytes.size() + 1]);
  if (!bytes.empty()) {
    std::memcpy(copy.get(), bytes.data(), bytes.size());
    // Clear the unused bits of the last byte, so that equal constants have equal bytes.
    const int64_t used = (type.elements().value_or(0) % 8 * bits_of(type.dtype)) % 8;
    if (used != 0) copy[bytes.size() - 1] &= std::byte((1 << used) - 1);
  }
  constant.memory = std::shared_ptr<const std::byte>(copy, copy.get());
  return add_constant(std::move(type), std::move(constant), std::move(name));
}

Result<ValueId> Graph::add_constant(TensorType type, Constant constant, std::string name) {
  FE_CHECK(check_type(type));
  const auto bytes = type.bytes();
  if (!bytes || !find_dtype(type.dtype) || static_cast<uint64_t>(*bytes) != constant.bytes) {
    return error(FE_EINVALID, "FE-G06", "constant {} has {} bytes, which is not what its type needs ({})",
                 text::quote(name), constant.bytes,
                 bytes ? std::to_string(*bytes) : "a static shape and a known element type");
  }
  if (constant.kind == FE_CONSTANT_LITERAL && constant.bytes > Constant::max_literal_bytes) {
    return error(FE_EINVALID, "FE-G06", "a literal holds at most {} bytes, not {}",
                 Constant::max_literal_bytes, constant.bytes);
  }
  Value value;
  value.kind = ValueKind::constant;
  value.name = free_name(std::move(name));
  value.type = std::move(type);
  value.constant = std::make_shared<const Constant>(std::move(constant));
  const ValueId id = add_value(std::move(value));
  constants_.push_back(id);
  record({}, id, [id](Graph& graph) {
    graph.constants_.pop_back();
    graph.drop_value(id);
    graph.value_arena_.release(id.index());
  });
  return id;
}

Result<void> Graph::erase_constant(ValueId id) {
  const Value* value = find(id);
  if (!value || value->kind != ValueKind::constant) return stale("constant");
  if (!value->uses.empty())
    return error(FE_EINVALID, "FE-G04", "constant {} is still used", text::quote(value->name));
  const auto place = std::find(constants_.begin(), constants_.end(), id) - constants_.begin();
  constants_.erase(constants_.begin() + place);
  drop_value(id);
  // Keep the slot until commit: undo may revive it.
  journal_->erased_values.push_back(id.index());
  record({}, {}, [id, place](Graph& graph) {
    graph.journal_->erased_values.pop_back();
    graph.value_arena_.revive(id);
    if (!graph.at(id).name.empty()) graph.value_names_.emplace(graph.at(id).name, id);
    graph.constants_.insert(graph.constants_.begin() + place, id);
  });
  return {};
}

// Nodes.

Result<NodeId> Graph::make(NodeSpec spec) {
  if (spec.op.empty()) return error(FE_EINVALID, "FE-G08", "a node needs the name of an op");
  if (spec.before && !find(spec.before)) return stale("node");
  for (const ValueId operand : spec.operands) {
    if (operand && !find(operand)) return stale("value");
  }
  for (const TensorType& type : spec.types) FE_CHECK(check_type(type));
  auto& attributes = spec.attributes;
  std::sort(attributes.begin(), attributes.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  const auto twice = std::adjacent_find(attributes.begin(), attributes.end(),
                                        [](const auto& a, const auto& b) { return a.name == b.name; });
  if (twice != attributes.end()) {
    return error(FE_EINVALID, "FE-G08", "'{}' is given attribute '{}' twice", spec.op, twice->name);
  }

  Node node;
  node.op = intern(spec.op);
  node.operands = std::move(spec.operands);
  node.attributes = std::move(attributes);
  node.origin = std::move(spec.origin);
  node.made_by = std::move(spec.made_by);
  node.use_slots_.resize(node.operands.size());
  const NodeId id = node_arena_.allocate(tag_, std::move(node));
  for (size_t k = 0; k < spec.types.size(); ++k) {
    Value value;
    value.type = std::move(spec.types[k]);
    value.producer = id;
    value.result = static_cast<uint32_t>(k);
    const ValueId result = add_value(std::move(value));
    at(id).results.push_back(result);
  }
  for (uint32_t k = 0; k < at(id).operands.size(); ++k) {
    if (at(id).operands[k]) add_use(at(id).operands[k], {id, k});
  }
  link(id, spec.before ? spec.before.index() : nil);
  record(id, {}, [id](Graph& graph) {
    graph.unlink(id);
    const Node& made = graph.at(id);
    for (size_t k = made.operands.size(); k-- > 0;) {
      if (made.operands[k]) graph.remove_use(made.operands[k], made.use_slots_[k]);
    }
    for (size_t k = made.results.size(); k-- > 0;) {
      graph.drop_value(made.results[k]);
      graph.value_arena_.release(made.results[k].index());
    }
    graph.node_arena_.kill(id);
    graph.node_arena_.release(id.index());
  });
  return id;
}

Result<void> Graph::replace_uses(ValueId from, ValueId to) {
  if (!find(from) || !find(to)) return stale("value");
  if (from == to) return {};
  // Copy the use: redirect() removes it from this list.
  while (!at(from).uses.empty()) redirect(Use(at(from).uses.back()), to);
  return {};
}

Result<void> Graph::erase(NodeId id) {
  if (!find(id)) return stale("node");
  for (const ValueId result : at(id).results) {
    if (!at(result).uses.empty()) {
      return error(FE_EINVALID, "FE-G04", "a result of {} is still used; replace its uses first",
                   describe(id));
    }
  }
  const uint32_t before = at(id).next_;
  unlink(id);
  Node& node = at(id);
  for (size_t k = 0; k < node.operands.size(); ++k) {
    if (node.operands[k]) remove_use(node.operands[k], node.use_slots_[k]);
  }
  for (const ValueId result : node.results) {
    drop_value(result);
    journal_->erased_values.push_back(result.index());
  }
  node_arena_.kill(id);
  journal_->erased_nodes.push_back(id.index());
  record(id, {}, [id, before](Graph& graph) {
    graph.journal_->erased_nodes.pop_back();
    graph.node_arena_.revive(id);
    Node& back = graph.at(id);
    for (const ValueId result : back.results) {
      graph.journal_->erased_values.pop_back();
      graph.value_arena_.revive(result);
      if (!graph.at(result).name.empty()) graph.value_names_.emplace(graph.at(result).name, result);
    }
    // In reverse order of removal, so that each use returns to its old position.
    for (uint32_t k = static_cast<uint32_t>(back.operands.size()); k-- > 0;) {
      if (back.operands[k]) graph.insert_use(back.operands[k], back.use_slots_[k], {id, k});
    }
    graph.link(id, before);
  });
  return {};
}

Result<void> Graph::set_operand(NodeId id, uint32_t operand, ValueId value) {
  if (!find(id)) return stale("node");
  if (value && !find(value)) return stale("value");
  if (operand >= at(id).operands.size()) {
    return error(FE_EINVALID, "FE-G08", "{} has {} operands, no operand {}", describe(id),
                 at(id).operands.size(), operand);
  }
  redirect({id, operand}, value);
  return {};
}

Result<void> Graph::set_attribute(NodeId id, Attribute attribute) {
  if (!find(id)) return stale("node");
  auto& attributes = at(id).attributes;
  record(id, {}, [id, old = attributes](Graph& graph) { graph.at(id).attributes = old; });
  const auto place = std::lower_bound(attributes.begin(), attributes.end(), attribute,
                                      [](const auto& a, const auto& b) { return a.name < b.name; });
  if (place != attributes.end() && place->name == attribute.name) {
    *place = std::move(attribute);
  } else {
    attributes.insert(place, std::move(attribute));
  }
  return {};
}

Result<void> Graph::set_type(ValueId id, TensorType type) {
  if (!find(id)) return stale("value");
  FE_CHECK(check_type(type));
  record({}, id, [id, old = at(id).type](Graph& graph) { graph.at(id).type = old; });
  at(id).type = std::move(type);
  return {};
}

Result<void> Graph::set_made_by(NodeId id, std::string made_by) {
  if (!find(id)) return stale("node");
  record(id, {}, [id, old = at(id).made_by](Graph& graph) { graph.at(id).made_by = old; });
  at(id).made_by = std::move(made_by);
  return {};
}

Result<void> Graph::set_origin(NodeId id, std::string origin) {
  if (!find(id)) return stale("node");
  record(id, {}, [id, old = at(id).origin](Graph& graph) { graph.at(id).origin = old; });
  at(id).origin = std::move(origin);
  return {};
}

Result<void> Graph::set_value_name(ValueId id, std::string name) {
  if (!find(id)) return stale("value");
  if (name == at(id).name) return {};
  if (value_names_.contains(name)) {
    return error(FE_EINVALID, "FE-G05", "the name {} is taken in graph '{}'", text::quote(name), name_);
  }
  const auto rename = [id](Graph& graph, const std::string& to) {
    std::string& current = graph.at(id).name;
    if (!current.empty()) graph.value_names_.erase(current);
    if (!to.empty()) graph.value_names_.emplace(to, id);
    current = to;
  };
  record({}, id, [rename, old = at(id).name](Graph& graph) { rename(graph, old); });
  rename(*this, name);
  return {};
}

}  // namespace ferrite::core::graph
