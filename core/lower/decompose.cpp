// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/graph/infer.h"
#include "core/lower/lower.h"
#include "core/support/abi.h"

namespace ferrite::core::lower {
namespace {

constexpr size_t most_depth = 64;  // of decompositions within decompositions

/// Turns one node into what its decomposition builds before it.
Result<void> decompose_node(graph::Graph& graph, const plugin::Registry& registry, graph::NodeId id,
                            const graph::OpInfo& op) {
  graph::InstanceView instance(graph, id);
  graph::GraphApi api(graph, registry.ops());
  api.set_made_by(op.name);
  const auto results = graph.node(id).results;
  std::vector<fe_value> replacements(results.size());
  abi::Call call;
  auto args = abi::sized<fe_decompose_args>();
  args.graph = api.api();
  args.op = instance.get();
  args.node = id.bits;
  auto out = abi::sized<fe_decompose_out>();
  out.results = replacements.data();
  out.capacity = replacements.size();
  int32_t status = op.def.decompose(op.def.self, call.get(), &args, &out);
  std::string where = graph.describe(id);
  if (status != FE_OK) return at(where, call.error(status, "FE-G25", "its decomposition failed"));
  for (size_t k = 0; k < results.size(); ++k) {
    graph::ValueId value{replacements[k]};
    const auto* found = graph.find(value);
    if (!found)
      return at(where, error(FE_EINTERNAL, "FE-G25", "its decomposition gave no value for result {}", k));
    const auto& wanted = graph.type(results[k]);
    if (found->type.dtype != wanted.dtype || found->type.dims != wanted.dims)
      return at(where, error(FE_EINTERNAL, "FE-G25",
                             "its decomposition gave a value of another type for result {}", k));
    FE_CHECK(graph.replace_uses(results[k], value));
  }
  return graph.erase(id);
}

}  // namespace

Result<void> decompose(graph::Graph& graph, const plugin::Registry& registry, std::string_view device,
                       bool only_early, Ledger& ledger) {
  for (size_t depth = 0; depth < most_depth; ++depth) {
    bool changed = false;
    for (graph::NodeId id : graph.nodes()) {
      const auto* op = registry.ops().find(graph.op(id));
      if (!op)
        return at(graph.describe(id),
                  error(FE_EUNSUPPORTED, "FE-G13", "no plugin defines the op '{}'", graph.op(id)));
      bool early = (op->def.flags & FE_OP_DECOMPOSE_EARLY) != 0;
      if (only_early ? !early : op->def.lower != nullptr) continue;
      if (!only_early && !registry.lowerings(op->name, device).empty()) {
        // Without a decomposition there is no choice: lower() tells why all declined.
        if (!op->def.decompose) continue;
        FE_TRY(const bool taken, accepts(graph, registry, device, id, ledger));
        if (taken) continue;
      }
      if (!op->def.decompose) {
        if (only_early) continue;
        return at(graph.describe(id),
                  error(FE_EUNSUPPORTED, "FE-G25",
                        "the op has no lowering for device '{}' and no decomposition", device));
      }
      std::string subject = graph.describe(id);
      FE_CHECK(decompose_node(graph, registry, id, *op));
      ledger.add({"lowering", subject, op->name, "decomposed", {}, {}, 0});
      changed = true;
    }
    if (!changed) return {};
  }
  return error(FE_EINVALID, "FE-G25", "ops are still decomposing into each other after {} rounds",
               most_depth);
}

}  // namespace ferrite::core::lower
