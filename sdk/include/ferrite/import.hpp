// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reading ops of models that no importer knows: import handlers of plugins, and how an importer asks for them.
//   import_handler("onnx:com.acme::FusedRope", [](Graph& graph, const ImportNode& node) { ... }).versions(1, 2)
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ferrite/abi/importer.h"
#include "ferrite/graph.hpp"

namespace ferrite::inline v0 {

/// A node of a model, whatever its format. Valid while the handler runs.
class ImportNode {
 public:
  ImportNode(Graph& graph, const fe_import_node& node) : attrs(node.attrs), graph_(&graph), node_(&node) {}

  /// "onnx:com.acme::FusedRope"
  std::string_view source() const { return from_abi(node_->source); }
  /// Of the operator set that the op belongs to; 0 where the format has none.
  int64_t version() const { return node_->version; }
  std::string_view name() const { return from_abi(node_->name); }
  /// "node 'rope' (com.acme.FusedRope, opset 1)": how error texts begin.
  std::string_view place() const { return from_abi(node_->place); }

  size_t operand_count() const { return node_->operands.count; }
  bool has(size_t k) const { return k < operand_count() && element<fe_value>(node_->operands, k) != 0; }
  /// Throws FE-I23 where the model leaves operand k out.
  Value operand(size_t k) const {
    if (!has(k)) fail("FE-I23", place(), ": input ", k, " is missing");
    return {graph_, element<fe_value>(node_->operands, k)};
  }
  /// Absent where the model leaves it out.
  Value optional(size_t k) const { return has(k) ? operand(k) : Value(); }
  /// Operand k as a constant, computed where it follows from constants; nothing where it depends on the model's inputs.
  std::optional<Value> constant(size_t k) const {
    const Value value = operand(k);
    if (value.is_constant()) return value;
    if (value.view().is_input) return std::nullopt;
    return graph_->evaluate(value);
  }

  /// An attribute that is a tensor, as a constant of the graph; absent where the model has none of the name. The others are in
  /// `attrs`.
  Value tensor(std::string_view attribute) const {
    for (size_t k = 0; k < node_->tensors.count; ++k)
      if (const auto& tensor = element<fe_named_value>(node_->tensors, k); from_abi(tensor.name) == attribute)
        return {graph_, tensor.value};
    return {};
  }
  /// What the number of an element type means in an attribute; DType::none: no type that is supported.
  DType element_type(int64_t number) const {
    if (number < 0 || static_cast<uint64_t>(number) >= node_->element_types.count) return DType::none;
    return static_cast<DType>(element<fe_dtype>(node_->element_types, static_cast<size_t>(number)));
  }

  size_t result_count() const { return node_->results.count; }
  /// Whether the model gives result k a name; what it does not need not be made.
  bool wants(size_t k) const {
    return k < result_count() && element<fe_string>(node_->results, k).length != 0;
  }

  const AttrView attrs;

 private:
  Graph* graph_;
  const fe_import_node* node_;
};

/// Adds what the node computes and gives its results in order; trailing ones that are not wanted may be left out. decline() has the
/// node read as without the handler.
using ImportFunction = std::function<std::vector<Value>(Graph&, const ImportNode&)>;

/// Reads one op in models of a format; give it to FERRITE_PLUGIN.
struct ImportHandlerDef {
  std::string source;
  ImportFunction import;
  int64_t first = 0, last = std::numeric_limits<int64_t>::max();

  /// Of the op's operator set, both included; without it the handler reads all.
  ImportHandlerDef& versions(int64_t least, int64_t most = std::numeric_limits<int64_t>::max()) {
    first = least;
    last = most;
    return *this;
  }
};
inline ImportHandlerDef import_handler(std::string source, ImportFunction function) {
  return {std::move(source), std::move(function)};
}

/// What plugins say of an op.
struct Reader {
  uint32_t kind = FE_READER_NONE;
  std::string plugin;
  std::string versions;    ///< those of handlers, where `kind` is none
  std::string suggestion;  ///< a source op of a similar name, where `kind` is none
};

/// The ops that plugins read, for an importer. Of the thread that builds; valid while it does.
class PluginOps {
 public:
  /// `api` may be null: no plugin reads any.
  explicit PluginOps(const fe_import_api* api) : api_(api) {}

  /// `known`: source ops that the importer reads itself, for suggestions.
  Reader find(std::string_view source, int64_t version, std::span<const fe_string> known = {}) const {
    if (!api_) return {};
    auto args = sized<fe_reader_args>();
    args.source = to_abi(source);
    args.version = version;
    args.known = to_array(known.data(), known.size());
    auto out = sized<fe_reader_out>();
    call_host(*api_, api_->find, args, out);
    return {out.kind, std::string(from_abi(out.plugin)), std::string(from_abi(out.versions)),
            std::string(from_abi(out.suggestion))};
  }
  /// The node's results, those that nothing wants perhaps absent. Throws FE-I41 where no plugin reads the node.
  std::vector<Value> import_node(Graph& graph, const fe_import_node& node) const {
    auto args = sized<fe_import_args>();
    args.graph = &graph.api();
    args.node = &node;
    std::vector<fe_value> handles(node.results.count);
    auto out = sized<fe_import_out>();
    out.results = handles.data();
    out.capacity = handles.size();
    if (!api_) fail("FE-I41", from_abi(node.place), ": no plugin reads the op");
    call_host(*api_, api_->import_node, args, out);
    std::vector<Value> results;
    for (const fe_value handle : handles) results.emplace_back(handle ? Value(&graph, handle) : Value());
    return results;
  }

 private:
  const fe_import_api* api_;
};

}  // namespace ferrite::inline v0
