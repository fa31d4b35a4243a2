// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Import handlers: read ops of model files that no importer knows. Also the interface with which an importer
// calls them.
//   import_handler("onnx:com.acme::FusedRope", [](Graph& graph, const ImportNode& node) { ... }).versions(1,
//   2)
#pragma once

#include <algorithm>
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

/// The attributes of a model's node. Records which ones are read. Throws FE-I23, with the node's place, if an
/// attribute is missing or not of the type of the accessor.
class ImportAttrs {
 public:
  ImportAttrs(fe_array attrs, std::string_view place) : attrs_(attrs), place_(place) {}

  bool has(std::string_view name) const {
    ask(name);
    return attrs_.has(name);
  }
  int64_t integer(std::string_view name) const { return of_kind(name, FE_ATTR_INT).integer(name); }
  int64_t integer(std::string_view name, int64_t otherwise) const {
    return has(name) ? integer(name) : otherwise;
  }
  double number(std::string_view name) const { return of_kind(name, FE_ATTR_FLOAT).number(name); }
  double number(std::string_view name, double otherwise) const {
    return has(name) ? number(name) : otherwise;
  }
  std::string_view string(std::string_view name) const { return of_kind(name, FE_ATTR_STRING).string(name); }
  std::string_view string(std::string_view name, std::string_view otherwise) const {
    return has(name) ? string(name) : otherwise;
  }
  std::span<const int64_t> integers(std::string_view name) const {
    return of_kind(name, FE_ATTR_INTS).integers(name);
  }
  std::span<const double> numbers(std::string_view name) const {
    return of_kind(name, FE_ATTR_FLOATS).numbers(name);
  }
  /// All attributes, for another node; all count as read.
  std::vector<Attr> copy() const {
    auto all = attrs_.copy();
    for (const Attr& attribute : all) ask(attribute.name());
    return all;
  }

 private:
  friend class ImportNode;

  static std::string_view kind_text(uint32_t kind) {
    switch (kind) {
      case FE_ATTR_INT: return "an integer";
      case FE_ATTR_FLOAT: return "a float";
      case FE_ATTR_STRING: return "a string";
      case FE_ATTR_INTS: return "a list of integers";
      case FE_ATTR_FLOATS: return "a list of floats";
      case FE_ATTR_STRINGS: return "a list of strings";
      default: return "of another type";
    }
  }
  void ask(std::string_view name) const {
    if (std::ranges::find(asked_, name) == asked_.end()) asked_.emplace_back(name);
  }
  const AttrView& of_kind(std::string_view name, uint32_t wanted) const {
    ask(name);
    const fe_attr* found = attrs_.find(name);
    if (!found) fail("FE-I23", place_, ": attribute '", name, "' is missing");
    if (found->kind != wanted)
      fail("FE-I23", place_, ": attribute '", name, "' is ", kind_text(found->kind), ", and ",
           kind_text(wanted), " is wanted");
    return attrs_;
  }

  AttrView attrs_;
  std::string_view place_;
  mutable std::vector<std::string> asked_;
};

/// A node of a model, of any format. Valid while the handler runs. It records which attributes and inputs the
/// handler reads. An attribute or input that the handler never reads would be ignored silently, so the node
/// is then refused (FE-I44).
class ImportNode {
 public:
  ImportNode(Graph& graph, const fe_import_node& node)
      : attrs(node.attrs, from_abi(node.place)),
        graph_(&graph),
        node_(&node),
        asked_(node.operands.count, false) {}
  ImportNode(const ImportNode&) = delete;

  /// "onnx:com.acme::FusedRope"
  std::string_view source() const { return from_abi(node_->source); }
  /// The version of the op's operator set; 0 if the format has none.
  int64_t version() const { return node_->version; }
  std::string_view name() const { return from_abi(node_->name); }
  /// "node 'rope' (com.acme.FusedRope, opset 1)": error texts begin with it.
  std::string_view place() const { return from_abi(node_->place); }

  size_t operand_count() const { return node_->operands.count; }
  bool has(size_t k) const {
    if (k >= operand_count()) return false;
    asked_[k] = true;
    return element<fe_value>(node_->operands, k) != 0;
  }
  /// Throws FE-I23 if the model omits operand k.
  Value operand(size_t k) const {
    if (!has(k)) fail("FE-I23", place(), ": input ", k, " is missing");
    return {graph_, element<fe_value>(node_->operands, k)};
  }
  /// Absent if the model omits it.
  Value optional(size_t k) const { return has(k) ? operand(k) : Value(); }
  /// Operand k as a constant, evaluated if it follows from constants; none if it depends on the model's
  /// inputs.
  std::optional<Value> constant(size_t k) const {
    const Value value = operand(k);
    if (value.is_constant()) return value;
    if (value.view().is_input) return std::nullopt;
    return graph_->evaluate(value);
  }

  /// A tensor attribute as a constant of the graph; absent if the model has none of this name. Other
  /// attributes are in `attrs`.
  Value tensor(std::string_view attribute) const {
    attrs.ask(attribute);
    for (size_t k = 0; k < node_->tensors.count; ++k)
      if (const auto& tensor = element<fe_named_value>(node_->tensors, k); from_abi(tensor.name) == attribute)
        return {graph_, tensor.value};
    return {};
  }
  /// The dtype for a number by which the format's attributes denote an element type; DType::none if it is not
  /// supported.
  DType element_type(int64_t number) const {
    if (number < 0 || static_cast<uint64_t>(number) >= node_->element_types.count) return DType::none;
    return static_cast<DType>(element<fe_dtype>(node_->element_types, static_cast<size_t>(number)));
  }

  size_t result_count() const { return node_->results.count; }
  /// Whether the model uses result k. Unused results need not be computed.
  bool wants(size_t k) const {
    return k < result_count() && element<fe_string>(node_->results, k).length != 0;
  }

  const ImportAttrs attrs;

  /// Throws FE-I44 if the node has an attribute or an input that was never read. Called after the handler has
  /// returned its results.
  void refuse_ignored() const {
    for (size_t k = 0; k < node_->attrs.count; ++k) refuse_ignored(element<fe_attr>(node_->attrs, k).name);
    for (size_t k = 0; k < node_->tensors.count; ++k)
      refuse_ignored(element<fe_named_value>(node_->tensors, k).name);
    for (size_t k = 0; k < asked_.size(); ++k)
      if (!asked_[k] && element<fe_value>(node_->operands, k) != 0)
        fail("FE-I44", place(), ": input ", k, " of the node's ", asked_.size(), " is ignored");
  }

 private:
  void refuse_ignored(fe_string attribute) const {
    const std::string_view name = from_abi(attribute);
    if (std::ranges::find(attrs.asked_, name) != attrs.asked_.end()) return;
    std::string looked_at;
    for (const auto& other : attrs.asked_) looked_at += (looked_at.empty() ? "'" : ", '") + other + "'";
    fail("FE-I44", place(), ": attribute '", name,
         "' is ignored; those that are looked at: ", looked_at.empty() ? "none" : looked_at);
  }

  Graph* graph_;
  const fe_import_node* node_;
  mutable std::vector<bool> asked_;  ///< by operand
};

/// Adds nodes that compute the model's node and returns its results in order; unused trailing ones may be
/// omitted. decline() passes the node on to the next reader.
using ImportFunction = std::function<std::vector<Value>(Graph&, const ImportNode&)>;

/// Reads one op in models of a format; pass it to FERRITE_PLUGIN.
struct ImportHandlerDef {
  std::string source;
  ImportFunction import;
  int64_t first = 0, last = std::numeric_limits<int64_t>::max();

  /// Versions of the op's operator set, both ends inclusive; by default the handler reads all.
  ImportHandlerDef& versions(int64_t least, int64_t most = std::numeric_limits<int64_t>::max()) {
    first = least;
    last = most;
    return *this;
  }
};
inline ImportHandlerDef import_handler(std::string source, ImportFunction function) {
  return {std::move(source), std::move(function)};
}

/// The plugins' reader for an op.
struct Reader {
  uint32_t kind = FE_READER_NONE;
  std::string plugin;
  std::string versions;    ///< if `kind` is none: versions of the op's handlers
  std::string suggestion;  ///< if `kind` is none: a source op with a similar name
};

/// The ops that plugins read, for use in an importer. Only on the thread that builds, and while it builds.
class PluginOps {
 public:
  /// `api` may be null: no plugin reads ops.
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
  /// The node's results; unused ones may be absent. Throws FE-I41 if no plugin reads the node.
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
