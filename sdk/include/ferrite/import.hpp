// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reading ops of models that no importer knows: import handlers of plugins, and how an importer asks for them.
//   import_handler("onnx:com.acme::FusedRope", [](Graph& graph, const ImportNode& node) { ... }).versions(1, 2)
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

/// The attributes of a node of a model, as the model has them. It remembers which ones were asked for. Throws FE-I23, with the node's
/// place, where one is missing or of another type than the function that reads it.
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
  /// All of them, as values to give to another node; all count as asked for.
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

/// A node of a model, whatever its format. Valid while the handler runs. It remembers what the handler asks for: an attribute or an
/// input that it never looks at would change nothing, so the node is refused then (FE-I44).
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
  /// Of the operator set that the op belongs to; 0 where the format has none.
  int64_t version() const { return node_->version; }
  std::string_view name() const { return from_abi(node_->name); }
  /// "node 'rope' (com.acme.FusedRope, opset 1)": how error texts begin.
  std::string_view place() const { return from_abi(node_->place); }

  size_t operand_count() const { return node_->operands.count; }
  bool has(size_t k) const {
    if (k >= operand_count()) return false;
    asked_[k] = true;
    return element<fe_value>(node_->operands, k) != 0;
  }
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
    attrs.ask(attribute);
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

  const ImportAttrs attrs;

  /// FE-I44 where the node has an attribute or an input that nobody asked for. Called when the handler has made its results.
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
