// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/ir/graph/infer.h"
#include "core/lower/lower.h"
#include "core/support/abi/abi.h"
#include "core/support/abi/callback.h"

namespace ferrite::core::lower {

Result<void> decompose_node(graph::Graph& graph, const plugin::Registry& registry, graph::NodeId id,
                            const Decomposition& by) {
  graph::InstanceView instance(graph, id);
  graph::GraphApi api(graph, registry.ops());
  api.set_made_by(std::string(by.made_by));
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
  const std::string op(graph.op(id));
  int32_t status =
      callback::call({by.plugin, "decomposition of op", op}, by.decompose, by.self, call, &args, &out);
  std::string where = graph.describe(id);
  if (status != FE_OK) return at(where, call.error(status, "FE-G25", "its decomposition failed"));
  if (auto kept = api.check(); !kept) return at(where, std::move(kept.error()));
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

namespace {

constexpr size_t most_depth = 64;  // nesting limit of decompositions

/// Tries decompositions that other plugins provide for the op. False if all decline; the graph is then
/// unchanged.
Result<bool> decompose_by_others(graph::Graph& graph, const plugin::Registry& registry, graph::NodeId id,
                                 const std::string& op, Ledger& ledger) {
  for (const auto& entry : registry.decompositions(op)) {
    const auto mark = graph.mark();
    const std::string subject = graph.describe(id);
    auto done = decompose_node(
        graph, registry, id, {entry.plugin->id, entry.plugin->id, entry.table->decompose, entry.table->self});
    if (!done && done.error().status != FE_EUNSUPPORTED) return std::move(done.error());
    ledger.add({"lowering",
                subject,
                entry.plugin->id,
                done ? "decomposed" : "declined",
                {},
                done ? std::string() : done.error().text,
                0});
    if (done) return true;
    FE_CHECK(graph.rollback(mark));
  }
  return false;
}

}  // namespace

Result<void> decompose(graph::Graph& graph, const plugin::Registry& registry, std::string_view device,
                       bool only_early, Ledger& ledger) {
  for (size_t depth = 0; depth < most_depth; ++depth) {
    // A decomposition may build further composite ops, so repeat until a round changes nothing.
    bool changed = false;
    for (graph::NodeId id : graph.nodes()) {
      if (!graph.find(id)) continue;  // an earlier decomposition has erased it
      const auto* op = registry.ops().find(graph.op(id));
      if (!op)
        return at(graph.describe(id),
                  error(FE_EUNSUPPORTED, "FE-G13", "no plugin defines the op '{}'", graph.op(id)));
      const bool early = (op->def.flags & FE_OP_DECOMPOSE_EARLY) != 0;
      const bool others = !registry.decompositions(op->name).empty();
      if (only_early ? !early : op->def.lower && !others) continue;
      if (!only_early && !registry.lowerings(op->name, device).empty()) {
        // An op without a decomposition goes to lower(), which reports why every lowering declined.
        if (!op->def.decompose && !others) continue;
        FE_TRY(const bool taken, accepts(graph, registry, device, id, ledger));
        if (taken) continue;
      }
      FE_TRY(const bool done, decompose_by_others(graph, registry, id, op->name, ledger));
      if (!done) {
        // Its own lowering applies now that the other plugins' decompositions have declined.
        if (!only_early && op->def.lower) continue;
        if (!op->def.decompose) {
          if (only_early) continue;
          return at(graph.describe(id),
                    error(FE_EUNSUPPORTED, "FE-G25",
                          "the op has no lowering for device '{}' and no decomposition", device));
        }
        std::string subject = graph.describe(id);
        FE_CHECK(
            decompose_node(graph, registry, id, {op->name, op->plugin, op->def.decompose, op->def.self}));
        ledger.add({"lowering", subject, op->name, "decomposed", {}, {}, 0});
      }
      changed = true;
    }
    if (!changed) return {};
  }
  return error(FE_EINVALID, "FE-G25", "ops are still decomposing into each other after {} rounds",
               most_depth);
}

}  // namespace ferrite::core::lower
