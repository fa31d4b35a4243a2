// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Asking an op for its result types, and the view of a node that its callbacks get.
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

/// Borrows everything from its arguments.
fe_tensor_type view_of(const TensorType& type);
fe_attr view_of(const Attribute& attribute, std::vector<fe_string>& strings);
fe_value_view view_of(const Graph& graph, ValueId id);
/// Fill every field in place. `value` is the one of `id`.
void fill_view(fe_attr& view, const Attribute& attribute, std::vector<fe_string>& strings);
void fill_view(fe_value_view& view, const Graph& graph, ValueId id, const Value& value);
/// FE-G06 where it cannot be read (rank without dims, unknown layout).
Result<TensorType> read_type(const fe_tensor_type& type);

/// A node (or one that is about to be made) as infer, decompose and lower see it: operand and result types, the data of
/// constants, attributes. Borrows from graph and attributes: valid until either changes. Not copied, not moved.
class InstanceView {
 public:
  /// Of a node that is in the graph, with its results.
  InstanceView(const Graph& graph, NodeId node, std::string_view device = {});
  /// Of a node that is about to be made.
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

/// Operands and attributes as the op wants them: FE-G13 for an op that no plugin defines, FE-G14 for a wrong number of
/// operands or an absent one that is required, FE-G15 for an unknown, missing or wrongly typed attribute. Trailing
/// absent operands are dropped, defaults of absent attributes added, integers given where a float is wanted converted.
Result<const OpInfo*> complete(const OpRegistry& registry, std::string_view op,
                               std::vector<ValueId>& operands, std::vector<Attribute>& attributes);

/// The code of infer_types' error where sizes that are open decide.
inline constexpr std::string_view needs_sizes = "FE-G27";

/// The result types by the op's rule. The rule's own error is passed on; FE-G16 where it breaks its contract; FE-G27 where an
/// operand has an open dim, and with a size in its place the rule says something else.
Result<std::vector<TensorType>> infer_types(const Graph& graph, const OpInfo& op,
                                            std::span<const ValueId> operands,
                                            std::span<const Attribute> attributes);

/// Completes, infers and makes; `spec.types` is ignored. Errors say op and origin.
Result<NodeId> make_inferred(Graph& graph, const OpRegistry& registry, NodeSpec spec);

/// Infers the node again after an edit, and whatever depends on a type that changed by it.
Result<void> reinfer(Graph& graph, const OpRegistry& registry, NodeId node);

}  // namespace ferrite::core::graph
