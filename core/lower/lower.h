// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From graph to loops: decomposition of composite ops, lowering of the rest, and evaluation of constant parts.
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
  std::string_view made_by;  ///< what the nodes that it builds say of their origin: an op, or a plugin
  std::string_view plugin;
  decltype(fe_decomposition::decompose) decompose;
  void* self;
};
/// Turns one node into what a decomposition builds before it. FE-G25, or the plugin's own error, at the node; the graph is then as
/// the decomposition left it.
Result<void> decompose_node(graph::Graph& graph, const plugin::Registry& registry, graph::NodeId id,
                            const Decomposition& by);

/// Replaces composite ops by what their decomposition gives, until none is left that no lowering for `device` takes
/// (`only_early`: those marked early, whatever lowerings they have). Decompositions of other plugins go before the op's own
/// and before its own lowering, the latest registered first; one that declines falls through. FE-G25 where an op has neither, or decomposes for ever.
Result<void> decompose(graph::Graph& graph, const plugin::Registry& registry, std::string_view device,
                       bool only_early, Ledger& ledger);

/// One op after the other through its lowering: overrides for the device first, the latest registered one first, then the op's
/// own; one that declines falls through. The graph is static by now. FE-K10 where all declined, with their reasons.
Result<loop::LoopProgram> lower(const graph::Graph& graph, const plugin::Registry& registry,
                                std::string_view device, Ledger& ledger);

/// Whether a lowering for `device` that is not the op's own takes the node; those that declined are in the ledger.
Result<bool> accepts(const graph::Graph& graph, const plugin::Registry& registry, std::string_view device,
                     graph::NodeId node, Ledger& ledger);

/// Folds values that depend on constants only, through the interpreter. Keeps what it has evaluated, so that a chain of shape
/// arithmetic is computed once. One graph, one thread.
class Evaluator {
 public:
  explicit Evaluator(const plugin::Registry& registry) : registry_(registry) {}

  static constexpr int64_t most_bytes = 64 << 10;  ///< of a result
  static constexpr size_t most_nodes = 512;        ///< that one result may depend on

  /// The value as a constant of the graph. FE_EUNSUPPORTED (FE-G26) where it depends on an input or is too large.
  Result<graph::ValueId> evaluate(graph::Graph& graph, graph::ValueId value);

 private:
  const plugin::Registry& registry_;
  std::map<graph::ValueId, graph::ValueId> known_;
};

}  // namespace ferrite::core::lower
