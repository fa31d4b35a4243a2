// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The Graph IR: SSA nodes over tensors, open ops, a signature, constants, provenance, and a journal under every edit.
//
// The graph stores; it knows no op. Types are given to it already inferred (core/ir/graph/infer.h), and whether they are
// right is the verifier's question (core/ir/graph/verify.h). Not thread-safe; const members may run concurrently.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/ir/graph/arena.h"
#include "core/ir/graph/symbols.h"
#include "core/ir/graph/types.h"
#include "core/support/error.h"
#include "core/support/files/weights.h"

namespace ferrite::core::graph {

/// One reader of a value: operand `index` of `user`. Where `user` is none, graph output `index`, or with the bit
/// `mutation` set, input `index` whose `mutated_by` it is.
struct Use {
  static constexpr uint32_t mutation = 1u << 31;
  NodeId user;
  uint32_t index = 0;
  friend bool operator==(const Use&, const Use&) = default;
};

enum class ValueKind : uint8_t { result, input, constant };

/// A constant's contents. Literals hold at most `max_literal_bytes` in `memory`. Weights and parameters either lie in
/// `file` at `offset`, or in `memory`, which then lives as long as any graph that has them; a weight with neither was
/// read from a text that could not carry it and has no data.
struct Constant {
  static constexpr uint64_t max_literal_bytes = 1024;
  uint32_t kind = FE_CONSTANT_LITERAL;  ///< FE_CONSTANT_LITERAL, _WEIGHT or _PARAMETER
  std::string file;
  uint64_t offset = 0;
  uint64_t bytes = 0;
  std::shared_ptr<const std::byte> memory;
};
/// Equal kind, place and, for memory, contents.
bool operator==(const Constant& a, const Constant& b);

struct Value {
  ValueKind kind = ValueKind::result;
  std::string name;  ///< unique in the graph where not empty
  TensorType type;
  NodeId producer;        ///< results only
  uint32_t result = 0;    ///< which one of the producer's, or which of the graph's inputs
  std::vector<Use> uses;  ///< in no order; Graph::users() has one
  std::shared_ptr<const Constant> constant;
};

struct Node {
  uint32_t op = 0;                ///< Graph::op_name
  std::vector<ValueId> operands;  ///< none where an optional operand is absent
  std::vector<ValueId> results;
  std::vector<Attribute> attributes;  ///< sorted by name, each once
  std::string origin;                 ///< the model's own node names, comma separated
  std::string made_by;                ///< the pass or rule that made it; empty: the importer

  const Attribute* find(std::string_view attribute) const;

 private:
  friend class Graph;
  std::vector<uint32_t> use_slots_;  // of each operand, its place in the value's uses
  uint32_t previous_ = UINT32_MAX, next_ = UINT32_MAX;
  uint64_t key_ = 0;  // grows along the list
};

struct Input {
  ValueId value;
  ValueId mutated_by;  ///< the value that is in the input's memory after the run; none: left as it is
  bool donated = false;
  friend bool operator==(const Input&, const Input&) = default;
};
struct Output {
  std::string name;
  ValueId value;
  ValueId alias_of;              ///< an input whose memory the output is; none: its own
  std::vector<int64_t> strides;  ///< required, in elements; empty: any
  friend bool operator==(const Output&, const Output&) = default;
};

/// What make() needs. Operands and types are taken as they are.
struct NodeSpec {
  std::string op;
  std::vector<ValueId> operands;
  std::vector<Attribute> attributes;
  std::vector<TensorType> types;  ///< one a result
  NodeId before;                  ///< none: at the end
  std::string origin, made_by;
};

/// A place in the journal. Valid until a rollback to an earlier one, or commit().
struct Mark {
  size_t entries = 0;
  uint64_t epoch = 0;
};

class Journal;

class Graph {
 public:
  explicit Graph(std::string name = "main", std::string weight_folder = {});
  ~Graph();
  Graph(const Graph& other);  ///< same handles, weight files shared, empty journal
  Graph(Graph&&) noexcept;
  Graph& operator=(const Graph& other) { return *this = Graph(other); }
  Graph& operator=(Graph&&) noexcept;

  const std::string& name() const { return name_; }
  void set_name(std::string name) { name_ = std::move(name); }
  uint64_t revision() const { return revision_; }  ///< grows with each edit and rollback, never repeats
  /// Of a joint (forward and backward) graph, how many outputs are the forward ones.
  std::optional<uint32_t> forward_outputs() const { return forward_outputs_; }
  void set_forward_outputs(std::optional<uint32_t> count) { forward_outputs_ = count; }

  // Reading. References stay good until what they refer to is changed or erased.
  const Node* find(NodeId id) const;  ///< null for none and stale handles
  const Value* find(ValueId id) const;
  const Node& node(
      NodeId id) const;  ///< an empty node for a stale handle: use where the handle is known to be live
  const Value& value(ValueId id) const;
  const TensorType& type(ValueId id) const { return value(id).type; }
  std::string_view op_name(uint32_t op) const { return op_names_[op]; }
  std::string_view op(NodeId id) const { return op_name(node(id).op); }
  std::optional<uint32_t> find_op(std::string_view name) const;
  /// How messages name a node: "%4 = op from Relu_0".
  std::string describe(NodeId id) const;

  size_t node_count() const { return node_count_; }
  NodeId first() const { return id_of(head_); }
  NodeId last() const { return id_of(tail_); }
  NodeId next(NodeId id) const;  ///< none for the last one and for a stale handle
  NodeId previous(NodeId id) const;
  std::vector<NodeId> nodes() const;            ///< in order; safe to edit while walking it
  bool comes_before(NodeId a, NodeId b) const;  ///< O(1); false where one is stale
  std::span<const Input> inputs() const { return inputs_; }
  std::span<const Output> outputs() const { return outputs_; }
  std::span<const ValueId> constants() const {
    return constants_;
  }  ///< in the order in which they were added
  std::optional<ValueId> find_value(std::string_view name) const;
  std::vector<NodeId> users(ValueId id) const;  ///< each once, in order; without the outputs
  bool is_output(ValueId id) const { return is_output(id, value(id)); }
  bool is_output(ValueId id, const Value& value) const;  ///< for who has looked it up

  /// The contiguous bytes of a constant, mapped when first asked for. FE-G42 where it has none.
  Result<std::span<const std::byte>> constant_bytes(ValueId id) const;
  /// Of weights and parameters in files; FE-G42 for others.
  Result<WeightIdentity> weight_identity(ValueId id) const;
  /// What the names of weight files are relative to; empty is the working directory.
  const std::string& weight_folder() const { return weights_->folder(); }

  SymbolTable& symbols() { return symbols_; }
  const SymbolTable& symbols() const { return symbols_; }
  void add_guard(Guard guard);

  // Edits. Each checks its handles (FE-G03) and leaves the graph as it was where it fails.
  Result<ValueId> add_input(std::string name, TensorType type);  ///< FE-G05 where the name is taken
  Result<void> set_mutated_by(uint32_t input, ValueId value);
  Result<void> set_donated(uint32_t input, bool donated);
  Result<uint32_t> add_output(std::string name, ValueId value);  ///< FE-G05 where there is one of that name
  Result<void> set_output(uint32_t output, ValueId value);
  Result<void> set_output_place(uint32_t output, ValueId alias_of, std::vector<int64_t> strides);
  /// A copy of the bytes: a literal up to max_literal_bytes, beyond that a weight in memory. FE-G06 where the bytes are
  /// not those of the type.
  Result<ValueId> add_literal(TensorType type, std::span<const std::byte> bytes, std::string name = {});
  /// A weight or parameter; a taken name gets a number added.
  Result<ValueId> add_constant(TensorType type, Constant constant, std::string name = {});
  Result<void> erase_constant(ValueId id);  ///< FE-G04 where it is used
  Result<NodeId> make(NodeSpec spec);
  Result<void> replace_uses(ValueId from, ValueId to);  ///< outputs too; the types may differ
  Result<void> erase(NodeId id);                        ///< FE-G04 where a result is used
  Result<void> set_operand(NodeId id, uint32_t operand, ValueId value);  ///< none makes it absent
  Result<void> set_attribute(NodeId id, Attribute attribute);            ///< adds or replaces
  Result<void> set_type(ValueId id, TensorType type);
  Result<void> set_made_by(NodeId id, std::string made_by);
  Result<void> set_origin(NodeId id, std::string origin);
  Result<void> set_value_name(ValueId id, std::string name);  ///< FE-G05 where the name is taken

  // The journal.
  Mark mark() const;
  /// Undoes every edit since the mark: same handles, same order, same uses. Handles made since are stale for ever.
  /// FE-G07 for a mark that is no longer valid.
  Result<void> rollback(Mark mark);
  /// Nodes and values (live ones) that the edits since the mark made or changed, each once, ascending.
  struct Touched {
    std::vector<NodeId> nodes;
    std::vector<ValueId> values;
    bool signature = false;
  };
  Touched touched(Mark mark) const;
  /// Forgets what could be undone; erased slots may be used again.
  void commit();

 private:
  friend Result<Graph> specialise(const Graph&, std::span<const std::pair<std::string, int64_t>>);
  static constexpr uint32_t nil = UINT32_MAX;

  NodeId id_of(uint32_t index) const { return index == nil ? NodeId{} : node_arena_.id_of(index); }
  Node& at(NodeId id) { return node_arena_[id.index()]; }
  Value& at(ValueId id) { return value_arena_[id.index()]; }
  template <class Undo>
  void record(NodeId node, ValueId value, Undo undo);

  // The node list (order.cpp).
  void link(NodeId node, uint32_t before);
  void unlink(NodeId node);
  void relabel(uint32_t around);

  // Use lists: swap-remove, and its exact inverse.
  uint32_t add_use(ValueId value, Use use);
  void remove_use(ValueId value, uint32_t slot);
  void insert_use(ValueId value, uint32_t slot, Use use);
  uint32_t& slot_of(const Use& use);
  ValueId& target_of(const Use& use);
  void redirect(const Use& use, ValueId to);

  ValueId add_value(Value value);
  void drop_value(ValueId id);
  uint32_t intern(std::string_view op);
  std::string free_name(std::string name) const;
  Result<void> check_type(const TensorType& type) const;
  Error stale(std::string_view what) const;

  std::string name_;
  std::optional<uint32_t> forward_outputs_;
  Arena<NodeId, Node> node_arena_;
  Arena<ValueId, Value> value_arena_;
  uint32_t head_ = nil, tail_ = nil;
  size_t node_count_ = 0;
  uint64_t revision_ = 0;
  uint32_t tag_ = 0;  // the top bits of every generation, so that another graph's handles are stale here
  std::vector<Input> inputs_;
  std::vector<Output> outputs_;
  std::vector<uint32_t> output_slots_;    // of each output, its place in the value's uses
  std::vector<uint32_t> mutation_slots_;  // of each input's mutated_by likewise
  std::vector<ValueId> constants_;
  std::vector<std::string> op_names_;
  std::unordered_map<std::string, uint32_t> op_numbers_;
  std::unordered_map<std::string, ValueId> value_names_;
  SymbolTable symbols_;
  std::shared_ptr<WeightStore> weights_;
  std::unique_ptr<Journal> journal_;
};

/// Structural equality: the same nodes in the same order with the same operands, types, names, attributes and
/// provenance; symbols by name. Handles may differ.
bool equal(const Graph& a, const Graph& b);

/// The graph with sizes for some of its symbols. FE-G12 where a name is unknown, a size is outside the symbol's range
/// or no multiple of its divisor, or a guard does not hold.
Result<Graph> specialise(const Graph& graph, std::span<const std::pair<std::string, int64_t>> bindings);

}  // namespace ferrite::core::graph
