// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Storage and reading of the graph; the edits are in edit.cpp.
#include "core/ir/graph/graph.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "core/ir/graph/journal.h"
#include "core/ir/lexer/lexer.h"

namespace ferrite::core::graph {
namespace {

/// A tag for a new graph, from 1. Handles contain it, so that a handle of another graph is detected. Tags
/// repeat after 4095 graphs; a repeated tag only weakens that check.
uint32_t new_tag() {
  static std::atomic<uint32_t> made{0};
  return made.fetch_add(1, std::memory_order_relaxed) % (Arena<NodeId, Node>::tags - 1) + 1;
}

template <class T>
const T& dead() {
  static const T item;
  return item;
}

}  // namespace

bool operator==(const Constant& a, const Constant& b) {
  if (a.kind != b.kind || a.file != b.file || a.offset != b.offset || a.bytes != b.bytes) return false;
  if (a.memory == b.memory) return true;
  return a.memory && b.memory && std::memcmp(a.memory.get(), b.memory.get(), a.bytes) == 0;
}

const Attribute* Node::find(std::string_view attribute) const {
  const auto found =
      std::lower_bound(attributes.begin(), attributes.end(), attribute,
                       [](const Attribute& a, std::string_view name) { return a.name < name; });
  return found != attributes.end() && found->name == attribute ? &*found : nullptr;
}

Graph::Graph(std::string name, std::string weight_folder)
    : name_(std::move(name)),
      tag_(new_tag()),
      weights_(std::make_shared<WeightStore>(std::move(weight_folder))),
      journal_(std::make_unique<Journal>()) {}
Graph::~Graph() = default;
Graph::Graph(Graph&&) noexcept = default;
Graph& Graph::operator=(Graph&&) noexcept = default;

Graph::Graph(const Graph& other)
    : name_(other.name_),
      forward_outputs_(other.forward_outputs_),
      node_arena_(other.node_arena_),
      value_arena_(other.value_arena_),
      head_(other.head_),
      tail_(other.tail_),
      node_count_(other.node_count_),
      revision_(other.revision_),
      tag_(other.tag_),
      inputs_(other.inputs_),
      outputs_(other.outputs_),
      output_slots_(other.output_slots_),
      mutation_slots_(other.mutation_slots_),
      constants_(other.constants_),
      op_names_(other.op_names_),
      op_numbers_(other.op_numbers_),
      value_names_(other.value_names_),
      symbols_(other.symbols_),
      weights_(other.weights_),
      journal_(std::make_unique<Journal>()) {
  // The copy has an empty journal, so nothing can revive the nodes and values that the other graph could
  // still restore.
  for (uint32_t index : other.journal_->erased_nodes) node_arena_.release(index);
  for (uint32_t index : other.journal_->erased_values) value_arena_.release(index);
}

const Node* Graph::find(NodeId id) const { return node_arena_.find(id); }
const Value* Graph::find(ValueId id) const { return value_arena_.find(id); }
const Node& Graph::node(NodeId id) const {
  const Node* found = find(id);
  return found ? *found : dead<Node>();
}
const Value& Graph::value(ValueId id) const {
  const Value* found = find(id);
  return found ? *found : dead<Value>();
}

std::optional<uint32_t> Graph::find_op(std::string_view name) const {
  const auto found = op_numbers_.find(std::string(name));
  if (found == op_numbers_.end()) return std::nullopt;
  return found->second;
}

uint32_t Graph::intern(std::string_view op) {
  const auto [found, added] =
      op_numbers_.try_emplace(std::string(op), static_cast<uint32_t>(op_names_.size()));
  if (added) op_names_.emplace_back(op);
  return found->second;
}

std::string Graph::describe(NodeId id) const {
  const Node* node = find(id);
  if (!node) return "a node that is no longer there";
  std::string text = "'" + std::string(op_name(node->op)) + "'";
  if (!node->results.empty() && !value(node->results[0]).name.empty()) {
    text = text::sigil_name('%', value(node->results[0]).name) + " = " + text;
  }
  if (!node->origin.empty()) text += " from " + text::quote(node->origin);
  if (!node->made_by.empty()) text += " by " + text::quote(node->made_by);
  return text;
}

NodeId Graph::next(NodeId id) const { return id_of(node(id).next_); }
NodeId Graph::previous(NodeId id) const { return id_of(node(id).previous_); }

std::vector<NodeId> Graph::nodes() const {
  std::vector<NodeId> result;
  result.reserve(node_count_);
  for (uint32_t k = head_; k != nil; k = node_arena_[k].next_) result.push_back(id_of(k));
  return result;
}

std::optional<ValueId> Graph::find_value(std::string_view name) const {
  const auto found = value_names_.find(std::string(name));
  if (found == value_names_.end()) return std::nullopt;
  return found->second;
}

std::vector<NodeId> Graph::users(ValueId id) const {
  std::vector<NodeId> result;
  for (const Use& use : value(id).uses) {
    if (use.user) result.push_back(use.user);
  }
  const auto key = [this](NodeId node) { return node_arena_[node.index()].key_; };
  std::sort(result.begin(), result.end(), [&](NodeId a, NodeId b) { return key(a) < key(b); });
  result.erase(std::unique(result.begin(), result.end()), result.end());
  return result;
}

bool Graph::is_output(ValueId id, const Value& value) const {
  // Search the shorter list: a graph may have many outputs, and a value many readers.
  const auto& uses = value.uses;
  if (uses.size() < outputs_.size()) {
    return std::any_of(uses.begin(), uses.end(),
                       [](const Use& use) { return !use.user && !(use.index & Use::mutation); });
  }
  return std::any_of(outputs_.begin(), outputs_.end(),
                     [id](const Output& output) { return output.value == id; });
}

Result<std::span<const std::byte>> Graph::constant_bytes(ValueId id) const {
  const Value* value = find(id);
  if (!value) return stale("value");
  if (!value->constant) {
    return error(FE_EINVALID, "FE-G42", "value '{}' is no constant and has no bytes", value->name);
  }
  const Constant& constant = *value->constant;
  if (constant.memory || constant.bytes == 0) return std::span(constant.memory.get(), constant.bytes);
  if (!constant.file.empty()) return weights_->bytes(constant.file, constant.offset, constant.bytes);
  return error(FE_EINVALID, "FE-G42",
               "constant '{}' was written without its {} bytes; give the model it came from", value->name,
               constant.bytes);
}

Result<WeightIdentity> Graph::weight_identity(ValueId id) const {
  const Value* value = find(id);
  if (!value) return stale("value");
  if (!value->constant || value->constant->file.empty()) {
    return error(FE_EINVALID, "FE-G42", "value '{}' lies in no weight file", value->name);
  }
  return weights_->identity(value->constant->file, value->constant->offset, value->constant->bytes);
}

Error Graph::stale(std::string_view what) const {
  return error(FE_ESTALE, "FE-G03",
               "the handle names no {} of graph '{}': it was erased, or is of another graph", what, name_);
}

Mark Graph::mark() const { return {journal_->entries.size(), journal_->epoch}; }

Result<void> Graph::rollback(Mark mark) {
  auto& entries = journal_->entries;
  if (mark.epoch != journal_->epoch || mark.entries > entries.size()) {
    return error(FE_EINTERNAL, "FE-G07", "the mark was committed, or rolled back past");
  }
  if (mark.entries != entries.size()) ++revision_;
  while (entries.size() > mark.entries) {
    const auto undo = std::move(entries.back().undo);
    entries.pop_back();
    undo(*this);
  }
  return {};
}

Graph::Touched Graph::touched(Mark mark) const {
  Touched result;
  const auto& entries = journal_->entries;
  for (size_t k = mark.epoch == journal_->epoch ? mark.entries : 0; k < entries.size(); ++k) {
    const auto& entry = entries[k];
    if (find(entry.node)) result.nodes.push_back(entry.node);
    if (find(entry.value)) result.values.push_back(entry.value);
    result.signature = result.signature || (!entry.node && !entry.value);
  }
  const auto tidy = [](auto& ids) {
    std::sort(ids.begin(), ids.end());
    ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  };
  tidy(result.nodes);
  tidy(result.values);
  return result;
}

void Graph::commit() {
  Journal& journal = *journal_;
  journal.entries.clear();
  ++journal.epoch;
  for (uint32_t index : journal.erased_nodes) node_arena_.release(index);
  for (uint32_t index : journal.erased_values) value_arena_.release(index);
  journal.erased_nodes.clear();
  journal.erased_values.clear();
}

}  // namespace ferrite::core::graph
