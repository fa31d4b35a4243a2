// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The context of an ONNX op's handler: the node's operands, attributes and constants, and the graph to add
// to.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ferrite/graph.hpp"
#include "format/schemas.h"
#include "format/tensors.h"
#include "registry.h"

namespace ferrite::from_onnx {

/// Resolves subgraphs; implemented by the build loop.
class Subgraphs {
 public:
  virtual ~Subgraphs() = default;
  /// Inlines the subgraph in a node's attribute, which has no inputs, and returns its outputs; `place` is the
  /// node's.
  virtual std::vector<Value> inline_graph(const onnx::AttributeProto& attribute, std::string_view place) = 0;
};

class Context {
 public:
  Context(Graph& graph, const ModelFile& file, const onnx::NodeProto& node, const OpEntry& entry,
          int64_t opset, std::vector<Value> operands, Subgraphs& subgraphs, std::string where)
      : graph(graph),
        file(file),
        node(node),
        entry(entry),
        opset(opset),
        signature(signature_of(entry.domain, entry.name, opset)),
        subgraphs(subgraphs),
        operands_(std::move(operands)),
        results_(static_cast<size_t>(node.output_size())),
        where_(std::move(where)) {}

  Graph& graph;
  const ModelFile& file;
  const onnx::NodeProto& node;
  const OpEntry& entry;
  const int64_t opset;               ///< operator set that the model names for the op's domain
  const Signature* const signature;  ///< null if the opset has no such op
  Subgraphs& subgraphs;

  // Operands. An absent one has an empty name, or lies after the last.
  size_t operand_count() const { return operands_.size(); }
  bool has(size_t k) const { return k < operands_.size() && operands_[k]; }
  Value operand(size_t k) const;  ///< FE-I23 if it is absent
  Value optional(size_t k) const { return has(k) ? operands_[k] : Value(); }
  const std::vector<Value>& operands() const { return operands_; }
  TensorType type(size_t k) const { return operand(k).type(); }

  // Attributes. FE-I23 if one has another type than requested.
  bool has_attribute(std::string_view name) const { return find(name) != nullptr; }
  const onnx::AttributeProto& attribute(std::string_view name,
                                        int type) const;  ///< FE-I23 if it is absent
  int64_t integer(std::string_view name) const;
  int64_t integer(std::string_view name, int64_t otherwise) const;
  bool flag(std::string_view name, bool otherwise) const { return integer(name, otherwise) != 0; }
  double number(std::string_view name, double otherwise) const;
  std::string text(std::string_view name, std::string_view otherwise) const;
  std::optional<Dims> integers(std::string_view name) const;
  std::optional<std::vector<double>> numbers(std::string_view name) const;

  // Constants. FE-I22 (unsupported) if a value is needed at import but depends on the model's inputs.
  std::optional<Value> known(size_t k) const { return known(operand(k)); }
  std::optional<Value> known(const Value& value) const;
  Value constant(size_t k) const;
  Dims constant_integers(size_t k) const;
  int64_t constant_integer(size_t k) const;  ///< for a tensor with one element
  std::vector<double> constant_numbers(size_t k) const;
  double constant_number(size_t k) const;

  /// An axis in [0, rank); negative ones count from the end.
  int64_t axis(int64_t value, size_t rank) const;
  /// Normalises each axis; FE-I23 if one occurs twice.
  Dims axes(Dims values, size_t rank) const;

  // Results.
  bool wants(size_t k) const { return k < results_.size() && !node.output(static_cast<int>(k)).empty(); }
  void give(Value value) { give(0, value); }
  void give(size_t k, Value value) {
    if (k < results_.size()) results_[k] = value;
  }
  const std::vector<Value>& results() const { return results_; }
  /// Refuses results from `first` on, which the handler does not compute. `cure` tells how a model can avoid
  /// them.
  void only_results(size_t first, std::string_view cure) const;
  /// "output 1 (Indices) 'pool_indices'": the op's name and the model's name of the result.
  std::string result_text(size_t k) const;

  template <class... Parts>
  Value make(std::string_view op, std::initializer_list<Value> operands, Parts&&... attrs) {
    return graph.make(op, std::vector<Value>(operands), std::vector<Attr>{std::forward<Parts>(attrs)...});
  }

  /// "node 'conv1' (Conv, opset 13)"
  const std::string& where() const { return where_; }
  template <class... Parts>
  [[noreturn]] void bad(const Parts&... parts) const {
    fail("FE-I23", where_, ": ", parts...);
  }
  template <class... Parts>
  [[noreturn]] void unsupported(const Parts&... parts) const {
    throw Failure(FE_EUNSUPPORTED, "FE-I24", detail::concatenate(where_, ": ", parts...));
  }

 private:
  const onnx::AttributeProto* find(std::string_view name) const;

  std::vector<Value> operands_, results_;
  std::string where_;
};

}  // namespace ferrite::from_onnx
