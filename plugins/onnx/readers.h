// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The reader of a model's node: a plugin, a function of the model, or a handler of this importer.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ferrite/import.hpp"
#include "format/tensors.h"
#include "functions.h"
#include "registry.h"

namespace ferrite::from_onnx {

/// The possible readers of an op; the first one that does not decline reads it.
struct Readers {
  const Reader* plugin = nullptr;  ///< its kind may be none
  const Function* function = nullptr;
  const OpEntry* entry = nullptr;  ///< for any version
};

/// A node's op, and the node's place for messages.
struct NodeOp {
  std::string domain, name, overload;
  int64_t version = 1;

  std::string text() const { return op_text(domain, name); }
  /// "onnx:com.acme::FusedRope"
  std::string source() const;
};

/// The op of a node; version 1 if the model names no operator set for the domain.
NodeOp op_of(const onnx::NodeProto& node, const Opsets& opsets);
/// "node 'rope' (com.acme.FusedRope, opset 1)"; a node without a name gets its number in the graph and its
/// first output.
std::string place_of(const onnx::NodeProto& node, int index, const NodeOp& op);

/// The readers of one import.
class ReaderTable {
 public:
  ReaderTable(const Functions& functions, const PluginOps& plugins)
      : functions_(functions), plugins_(plugins) {}

  Readers find(const NodeOp& op);
  const PluginOps& plugins() const { return plugins_; }

 private:
  const Functions& functions_;
  const PluginOps& plugins_;
  std::map<std::pair<std::string, int64_t>, Reader> readers_;  ///< by source op and version
};

/// Whether this importer's handler reads the op in that version.
bool reads(const OpEntry* entry, int64_t version);

/// Lets a plugin read a node. FE-I41 if all decline; FE-I24 for attributes that are no numbers, strings or
/// tensors; otherwise the host's errors.
std::vector<Value> import_by_plugin(Graph& graph, const ModelFile& file, const PluginOps& plugins,
                                    const onnx::NodeProto& node, const NodeOp& op,
                                    const std::vector<Value>& operands, std::string_view name,
                                    std::string_view place);

}  // namespace ferrite::from_onnx
