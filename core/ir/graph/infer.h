// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Infers result types through an op's shape rule, and builds the view of a node that the op's callbacks
// receive.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/ir/graph/graph.h"
#include "core/ir/graph/op_registry.h"
#include "ferrite/abi/contrib.h"

namespace ferrite::core::graph {

/// A view that borrows everything from `type`.
fe_tensor_type view_of(const TensorType& type);
fe_attr view_of(const Attribute& attribute, std::vector<fe_string>& strings);
fe_value_view view_of(const Graph& graph, ValueId id);
/// These fill every field in place. `value` is the value of `id`.
void fill_view(fe_attr& view, const Attribute& attribute, std::vector<fe_string>& strings);
void fill_view(fe_value_view& view, const Graph& graph, ValueId id, const Value& value);
/// FE-G06 if the type cannot be read (a rank without dims, an unknown layout).
Result<TensorType> read_type(const fe_tensor_type& type);

/// A node, existing or planned, as the callbacks infer, decompose and lower receive it: operand and result
/// types, constant data, attributes. Borrows from graph and attributes: valid until either changes. Neither
/// copyable nor movable.
class InstanceView {
 public:
  /// A view of an existing node, with its results.
  InstanceView(const Graph& graph, NodeId node, std::string_view device = {});
  /// A view of a node that is yet to be made.
  InstanceView(const Graph& graph, std::string_view op, std::span<const ValueId> operands,
               std::span<const Attribute> attributes);
  InstanceView(const InstanceView&) = delete;
  InstanceView& operator=(const InstanceView&) = delete;

  const fe_instance* get() const { return &instance_; }

 private:
  void fill(const Graph& graph, std::string_view op, std::span<const ValueId> operands,
            std::span<const Attribute> attributes);

  std::string op_, device_;
  std::vector<fe_value_view> operands_, results_;
  std::vector<fe_attr> attributes_;
  std::vector<std::vector<fe_string>> strings_;
  fe_instance instance_{};
};

/// Checks operands and attributes against the op's definition and completes them. Trailing absent operands
/// are dropped, defaults of absent attributes are added, and integers given for float attributes are
/// converted. FE-G13 for an op that no plugin defines, FE-G14 for a wrong number of operands or a required
/// one that is absent, FE-G15 for an unknown, missing or wrongly typed attribute.
Result<const OpInfo*> complete(const OpRegistry& registry, std::string_view op,
                               std::vector<ValueId>& operands, std::vector<Attribute>& attributes);

/// The error code of infer_types if the result types depend on sizes that are still open.
inline constexpr std::string_view needs_sizes = "FE-G27";

/// The result types by the op's shape rule. Errors: the rule's own error; FE-G16 if the rule breaks its
/// contract; FE-G27 if an operand has an open dim and the rule gives a different answer with a number in its
/// place.
Result<std::vector<TensorType>> infer_types(const Graph& graph, const OpInfo& op,
                                            std::span<const ValueId> operands,
                                            std::span<const Attribute> attributes);

/// Completes, infers and makes a node; `spec.types` is ignored. Errors name the op and its origin.
Result<NodeId> make_inferred(Graph& graph, const OpRegistry& registry, NodeSpec spec);

/// Infers a node again after an edit, and then every node that depends on a changed type.
Result<void> reinfer(Graph& graph, const OpRegistry& registry, NodeId node);

}  // namespace ferrite::core::graph
