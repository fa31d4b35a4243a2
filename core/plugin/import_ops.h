// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ops of model files that plugins read. An importer asks here for an op that it does not know.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/plugin/registry.h"
#include "core/support/abi/loan.h"
#include "ferrite/abi/importer.h"

namespace ferrite::core::graph {
class GraphApi;
}

namespace ferrite::core::plugin {

inline constexpr std::string_view source_example = "\"onnx:com.acme::FusedRope\"";
/// Formats that plugins may name even if no loaded plugin reads such models.
inline constexpr std::array<std::string_view, 2> known_formats{"onnx", "torch"};
/// Whether the text is a valid source op: a format, ':' and names joined by "::", without blanks.
bool valid_source(std::string_view text);
/// "1 to 3", "2", "any", "4 and later"
std::string versions_text(int64_t first, int64_t last);

/// A reader of a source op, apart from the importer.
struct SourceReader {
  uint32_t kind = FE_READER_NONE;
  std::string plugin;
  std::string op;  ///< for aliases and for ops found by name
  int64_t first = 0, last = INT64_MAX;
};
/// All readers of one format, by source op. Readers of the same op are in the order in which they are asked.
std::vector<std::pair<std::string, SourceReader>> readers_of(const Registry& registry,
                                                             std::string_view format);

/// The host's side of fe_import_api for one import. Registry and graph must outlive it.
///
/// A node is offered to the import handlers of its op and version, then to the op that a descriptor's alias
/// names, then to the op with the matching name ("com.acme.FusedRope" for "onnx:com.acme::FusedRope"). If a
/// handler declines, its edits are undone and the next reader is asked. For an op, the node's operands are
/// passed in order and its attributes by name.
///
/// FE-I23 if the node does not fit the op's definition, FE-I41 if nothing reads it, FE-I42 if a handler
/// returns an invalid result; else the handler's own code, and those of fe_graph_api.make. Each text begins
/// with the node's place.
class ImportOps {
 public:
  /// `graph` is the graph that the importer builds; all nodes are made through its table.
  ImportOps(const Registry& registry, graph::GraphApi& graph);
  ImportOps(const ImportOps&) = delete;
  const fe_import_api* api() const { return loan_->table(); }

 private:
  struct Slots;

  Result<void> find(const fe_reader_args& args, fe_reader_out& out);
  Result<void> import_node(const fe_import_args& args, const fe_import_out& out);
  std::vector<Contributed<fe_import_handler>> handlers(std::string_view source, int64_t version) const;
  const graph::OpInfo* op_of(std::string_view source) const;

  const Registry& registry_;
  graph::GraphApi& graph_;
  std::string plugin_, versions_, suggestion_;  // own the strings of the last answer
  std::optional<Loan<fe_import_api, ImportOps>> loan_;
};

}  // namespace ferrite::core::plugin
