// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ops of models that plugins read: what an importer asks the host for where it does not know an op itself.
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
/// Formats that plugins may be for while no plugin reads such models.
inline constexpr std::array<std::string_view, 2> known_formats{"onnx", "torch"};
/// Whether that is a source op: a format, ':' and names joined by "::", without blanks.
bool valid_source(std::string_view text);
/// "1 to 3", "2", "any", "4 and later"
std::string versions_text(int64_t first, int64_t last);

/// Who reads a source op besides the importer.
struct SourceReader {
  uint32_t kind = FE_READER_NONE;
  std::string plugin;
  std::string op;  ///< of aliases and ops by name
  int64_t first = 0, last = INT64_MAX;
};
/// All that plugins read of one format, by source op; of one op in the order in which they are asked.
std::vector<std::pair<std::string, SourceReader>> readers_of(const Registry& registry,
                                                             std::string_view format);

/// The host's side of fe_import_api for one import. Registry and graph outlive it.
///
/// A node goes to the import handlers of its op and version, then to the op that an alias of a descriptor names, then to the op of
/// the name, "com.acme.FusedRope" for "onnx:com.acme::FusedRope". A handler that declines passes it on, and what it made is undone. For
/// an op, the node's operands are given in order, its attributes by name.
///
/// Codes: FE-I23 where the node does not fit the op's definition, FE-I41 where nothing reads it, FE-I42 where a handler gives what
/// cannot be; else the handler's own, and those of fe_graph_api.make. Each begins with the node's place.
class ImportOps {
 public:
  /// The graph is the one that the importer builds; nodes are made through the table that it passes on.
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
  std::string plugin_, versions_, suggestion_;  // of the last answer
  std::optional<Loan<fe_import_api, ImportOps>> loan_;
};

}  // namespace ferrite::core::plugin
