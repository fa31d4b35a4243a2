// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The Graph IR: SSA nodes over tensors, open ops, a signature, constants, provenance, and a journal that
// records every edit.
//
// The graph only stores: it knows no op. Callers pass types that are already inferred
// (core/ir/graph/infer.h), and the verifier checks them (core/ir/graph/verify.h). Not thread-safe; const
// members may run concurrently.
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

/// One use of a value: operand `index` of `user`. If `user` is none: graph output `index` or, with the bit
/// `mutation` set, the value is the `mutated_by` of input `index`.
struct Use {
  static constexpr uint32_t mutation = 1u << 31;
  NodeId user;
  uint32_t index = 0;
  friend bool operator==(const Use&, const Use&) = default;
};

enum class ValueKind : uint8_t { result, input, constant };

/// The contents of a constant. Literals have at most `max_literal_bytes`, in `memory`. Weights and parameters
/// are either in `file` at `offset` or in `memory`, which lives as long as any graph that refers to it. A
/// weight with neither has no data: it was read from a text that omits the contents.
struct Constant {
  static constexpr uint64_t max_literal_bytes = 1024;
  uint32_t kind = FE_CONSTANT_LITERAL;  ///< FE_CONSTANT_LITERAL, _WEIGHT or _PARAMETER
  std::string file;
  uint64_t offset = 0;
  uint64_t bytes = 0;
  std::shared_ptr<const std::byte> memory;
};
/// Compares kind, file and offset and, for constants in memory, contents.
bool operator==(const Constant& a, const Constant& b);

struct Value {
  ValueKind kind = ValueKind::result;
  std::string name;  ///< unique in the graph unless empty
  TensorType type;
  NodeId producer;        ///< results only
  uint32_t result = 0;    ///< the result's number at the producer, or the number of the graph input
  std::vector<Use> uses;  ///< unordered; Graph::users() gives them in order
  std::shared_ptr<const Constant> constant;
};

struct Node {
  uint32_t op = 0;                ///< a number; Graph::op_name() gives its name
  std::vector<ValueId> operands;  ///< an absent optional operand is none
  std::vector<ValueId> results;
  std::vector<Attribute> attributes;  ///< sorted by name, without duplicates
  std::string origin;                 ///< the model's own node names, separated by commas
  std::string made_by;                ///< the pass or rule that made the node; empty: the importer

  const Attribute* find(std::string_view attribute) const;

 private:
  friend class Graph;
  std::vector<uint32_t> use_slots_;  // by operand: its index in the value's uses
  uint32_t previous_ = UINT32_MAX, next_ = UINT32_MAX;
  uint64_t key_ = 0;  // increases along the list
};

struct Input {
  ValueId value;
  ValueId mutated_by;  ///< the value that the input's memory holds after the run; none: unchanged
  bool donated = false;
  friend bool operator==(const Input&, const Input&) = default;
};
struct Output {
  std::string name;
  ValueId value;
  ValueId alias_of;              ///< the input whose memory the output shares; none: the output has its own
  std::vector<int64_t> strides;  ///< required strides, in elements; empty: any
  friend bool operator==(const Output&, const Output&) = default;
};

/// The arguments of make(). Operands and types are taken unchecked against the op.
struct NodeSpec {
  std::string op;
  std::vector<ValueId> operands;
  std::vector<Attribute> attributes;
  std::vector<TensorType> types;  ///< one per result
  NodeId before;                  ///< insert before this node; none: append
  std::string origin, made_by;
};

/// A position in the journal. Valid until commit() or a rollback to an earlier mark.
struct Mark {
  size_t entries = 0;
  uint64_t epoch = 0;
};

class Journal;

class Graph {
 public:
  explicit Graph(std::string name = "main", std::string weight_folder = {});
  ~Graph();
  Graph(const Graph& other);  ///< same handles, shared weight files, empty journal
  Graph(Graph&&) noexcept;
  Graph& operator=(const Graph& other) { return *this = Graph(other); }
  Graph& operator=(Graph&&) noexcept;

  const std::string& name() const { return name_; }
  void set_name(std::string name) { name_ = std::move(name); }
  uint64_t revision() const { return revision_; }  ///< grows with each edit and rollback, never repeats
  /// The number of forward outputs, in a joint (forward and backward) graph.
  std::optional<uint32_t> forward_outputs() const { return forward_outputs_; }
  void set_forward_outputs(std::optional<uint32_t> count) { forward_outputs_ = count; }

  // Reading. A reference stays valid until its item is changed or erased.
  const Node* find(NodeId id) const;  ///< null for none and for stale handles
  const Value* find(ValueId id) const;
  const Node& node(
      NodeId id) const;  ///< an empty node for a stale handle: use it only with handles known to be live
  const Value& value(ValueId id) const;
  const TensorType& type(ValueId id) const { return value(id).type; }
  std::string_view op_name(uint32_t op) const { return op_names_[op]; }
  std::string_view op(NodeId id) const { return op_name(node(id).op); }
  std::optional<uint32_t> find_op(std::string_view name) const;
  /// The name of a node in messages: "%4 = op from Relu_0".
  std::string describe(NodeId id) const;

  size_t node_count() const { return node_count_; }
  NodeId first() const { return id_of(head_); }
  NodeId last() const { return id_of(tail_); }
  NodeId next(NodeId id) const;  ///< none for the last node and for a stale handle
  NodeId previous(NodeId id) const;
  std::vector<NodeId> nodes() const;            ///< in order; safe to edit while walking it
  bool comes_before(NodeId a, NodeId b) const;  ///< O(1); false if one is stale
  std::span<const Input> inputs() const { return inputs_; }
  std::span<const Output> outputs() const { return outputs_; }
  std::span<const ValueId> constants() const {
    return constants_;
  }  ///< in the order in which they were added
  std::optional<ValueId> find_value(std::string_view name) const;
  std::vector<NodeId> users(ValueId id) const;  ///< each once, in order; graph outputs are not included
  bool is_output(ValueId id) const { return is_output(id, value(id)); }
  /// for callers that have already looked the value up
  bool is_output(ValueId id, const Value& value) const;

  /// The contiguous bytes of a constant, mapped on first use. FE-G42 if it has no data.
  Result<std::span<const std::byte>> constant_bytes(ValueId id) const;
  /// The identity of a weight or parameter in a file; FE-G42 for other constants.
  Result<WeightIdentity> weight_identity(ValueId id) const;
  /// The folder against which names of weight files are resolved; empty: the working directory.
  const std::string& weight_folder() const { return weights_->folder(); }

  SymbolTable& symbols() { return symbols_; }
  const SymbolTable& symbols() const { return symbols_; }
  void add_guard(Guard guard);

  // Edits. Each checks its handles (FE-G03). An edit that fails leaves the graph unchanged.
  Result<ValueId> add_input(std::string name, TensorType type);  ///< FE-G05 if the name is taken
  Result<void> set_mutated_by(uint32_t input, ValueId value);
  Result<void> set_donated(uint32_t input, bool donated);
  Result<uint32_t> add_output(std::string name, ValueId value);  ///< FE-G05 if an output has this name
  Result<void> set_output(uint32_t output, ValueId value);
  Result<void> set_output_place(uint32_t output, ValueId alias_of, std::vector<int64_t> strides);
  /// Copies the bytes: into a literal up to max_literal_bytes, else into a weight in memory. FE-G06 if the
  /// number of bytes does not match the type.
  Result<ValueId> add_literal(TensorType type, std::span<const std::byte> bytes, std::string name = {});
  /// Adds a weight or parameter. If the name is taken, a number is appended.
  Result<ValueId> add_constant(TensorType type, Constant constant, std::string name = {});
  Result<void> erase_constant(ValueId id);  ///< FE-G04 if it has uses
  Result<NodeId> make(NodeSpec spec);
  Result<void> replace_uses(ValueId from, ValueId to);  ///< includes graph outputs; the types may differ
  Result<void> erase(NodeId id);                        ///< FE-G04 if a result has uses
  /// `value` none makes the operand absent
  Result<void> set_operand(NodeId id, uint32_t operand, ValueId value);
  Result<void> set_attribute(NodeId id, Attribute attribute);  ///< adds or replaces
  Result<void> set_type(ValueId id, TensorType type);
  Result<void> set_made_by(NodeId id, std::string made_by);
  Result<void> set_origin(NodeId id, std::string origin);
  Result<void> set_value_name(ValueId id, std::string name);  ///< FE-G05 if the name is taken

  // The journal.
  Mark mark() const;
  /// Undoes every edit since the mark: restores handles, order and uses. Handles made since then are stale
  /// for good. FE-G07 if the mark is no longer valid.
  Result<void> rollback(Mark mark);
  /// The live nodes and values that the edits since the mark made or changed, without duplicates, ascending.
  struct Touched {
    std::vector<NodeId> nodes;
    std::vector<ValueId> values;
    bool signature = false;
  };
  Touched touched(Mark mark) const;
  /// Drops the undo history; the slots of erased items may be reused.
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

  // Use lists: removal swaps with the last use, and its inverse restores the exact order.
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
  uint32_t tag_ = 0;  // the top bits of every generation, so that handles of other graphs are stale here
  std::vector<Input> inputs_;
  std::vector<Output> outputs_;
  std::vector<uint32_t> output_slots_;    // by output: its index in the value's uses
  std::vector<uint32_t> mutation_slots_;  // by input: the index of its mutation in the uses of mutated_by
  std::vector<ValueId> constants_;
  std::vector<std::string> op_names_;
  std::unordered_map<std::string, uint32_t> op_numbers_;
  std::unordered_map<std::string, ValueId> value_names_;
  SymbolTable symbols_;
  std::shared_ptr<WeightStore> weights_;
  std::unique_ptr<Journal> journal_;
};

/// Structural equality: the same nodes in the same order with the same operands, types, names, attributes and
/// provenance; symbols compare by name. Handles may differ.
bool equal(const Graph& a, const Graph& b);

/// A copy of the graph with numbers for some symbols. FE-G12 if a name is unknown, a size is outside the
/// symbol's range or no multiple of its divisor, or a guard is violated.
Result<Graph> specialise(const Graph& graph, std::span<const std::pair<std::string, int64_t>> bindings);

}  // namespace ferrite::core::graph
