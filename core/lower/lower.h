// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From graph to loops: decomposes composite ops, lowers the others, and evaluates constant parts.
#pragma once

#include <map>
#include <string_view>

#include "core/ir/graph/api.h"
#include "core/ir/graph/graph.h"
#include "core/ir/loop/program.h"
#include "core/plugin/registry.h"
#include "core/support/ledger.h"

namespace ferrite::core::lower {

struct Decomposition {
  std::string_view made_by;  ///< origin of the nodes that it builds: an op or a plugin
  std::string_view plugin;
  decltype(fe_decomposition::decompose) decompose;
  void* self;
};
/// Replaces one node by the nodes that a decomposition builds in front of it. FE-G25 or the plugin's own
/// error, placed at the node; the graph then stays as the decomposition left it, and the caller rolls back.
Result<void> decompose_node(graph::Graph& graph, const plugin::Registry& registry, graph::NodeId id,
                            const Decomposition& by);

/// Decomposes composite ops until a lowering for `device` exists for every op (`only_early`: only ops marked
/// early, regardless of lowerings). Decompositions from other plugins precede the op's own decomposition and
/// lowering, the latest registered first; if one declines, the next is tried. FE-G25 if an op has neither, or
/// if decomposition does not terminate.
Result<void> decompose(graph::Graph& graph, const plugin::Registry& registry, std::string_view device,
                       bool only_early, Ledger& ledger);

/// Lowers one op after the other. Overrides for the device come first, the latest registered first, then the
/// op's own lowering; if one declines, the next is tried. The graph must be static. FE-K10 if all decline,
/// with their reasons.
Result<loop::LoopProgram> lower(const graph::Graph& graph, const plugin::Registry& registry,
                                std::string_view device, Ledger& ledger);

/// Whether a lowering for `device` other than the op's own takes the node. The ledger records those that
/// declined.
Result<bool> accepts(const graph::Graph& graph, const plugin::Registry& registry, std::string_view device,
                     graph::NodeId node, Ledger& ledger);

/// Evaluates values that depend on constants only, with the interpreter. Caches results, so that a chain of
/// shape arithmetic is computed once. For one graph and one thread.
class Evaluator {
 public:
  explicit Evaluator(const plugin::Registry& registry) : registry_(registry) {}

  static constexpr int64_t most_bytes = 64 << 10;  ///< of a result
  static constexpr size_t most_nodes = 512;  ///< the largest number of nodes on which a result may depend

  /// Adds the value to the graph as a constant. FE_EUNSUPPORTED (FE-G26) if it depends on an input or is too
  /// large.
  Result<graph::ValueId> evaluate(graph::Graph& graph, graph::ValueId value);

 private:
  const plugin::Registry& registry_;
  std::map<graph::ValueId, graph::ValueId> known_;
};

}  // namespace ferrite::core::lower
