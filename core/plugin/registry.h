// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What is loaded and what it contributes: plugins by id, ops, lowerings, rule sets, passes, providers, runtimes, importers,
// import handlers, fusion policies, cost models, metric sinks.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/ir/graph/op_registry.h"
#include "core/passes/rewrite/apply.h"
#include "core/support/error.h"
#include "core/support/log.h"
#include "ferrite/abi/plugin.h"
#include "runtime/plugin/backends.h"

namespace ferrite::core::plugin {

/// What the child of one isolated plugin may take.
struct ProcessLimits {
  std::chrono::milliseconds timeout{10'000};  ///< of each callback
  uint64_t memory = uint64_t{4} << 30;        ///< bytes of its address space, mapped weights included
  uint32_t starts = 4;  ///< after as many children have failed, none is started any more
};

enum class PassMode : uint8_t { once, fixpoint };
/// How a pass or the rules of a set run; what is empty is as the kind of pass has it.
struct PassLimits {
  std::optional<PassMode> mode;  ///< rules run to the fixpoint, others once
  std::optional<size_t>
      max_rewrites;  ///< applications of one rule, changes by a pass that runs to the fixpoint
  std::optional<std::chrono::milliseconds> timeout;  ///< of one compilation
};
inline constexpr size_t default_max_rewrites = 100'000;

/// How often something has to be applied: ">=1", "<=8", "==12".
struct Expectation {
  size_t least = 0, most = SIZE_MAX;
  std::string text, where;
  bool holds(size_t count) const { return count >= least && count <= most; }
};

/// What a descriptor says of one of its plugin's passes.
struct DescribedPass {
  std::string name, where, phase;  ///< phase: empty where it says none
  std::optional<std::vector<std::string>> after, before;
  std::map<std::string, std::string, std::less<>> places;  ///< of the keys
  PassLimits limits;
};

/// An op of models that a descriptor says to be one that a plugin defines.
struct Alias {
  std::string source;  ///< "onnx:com.acme::FusedRope"
  std::string op;      ///< the op's name; empty: the only one that the plugin defines
  std::string where;   ///< file:line:col
};

/// Of the file that describes a plugin, beside its library.
inline constexpr std::string_view descriptor_suffix = ".plugin.toml";

/// What the manifest says of one plugin.
struct PluginRequest {
  std::string id;
  std::string version, version_place;  ///< that its descriptor gives, and where; empty without one
  std::string library;                 ///< absolute path
  std::string library_place;           ///< of the 'library' of a manifest or descriptor; empty: by --plugin
  std::string library_sha256;          ///< that the lock gives; empty: any library is loaded
  std::string descriptor;              ///< path; empty: none
  std::vector<std::string> tried;      ///< where its descriptor was looked for in vain
  std::vector<std::string> needs, provides;  ///< requires and provides of its descriptor
  bool given = false;                        ///< by --plugin
  std::string why;                           ///< "share/ferrite/default.toml:4:3", "--plugin"
  OnError on_error = OnError::fail;
  Isolation isolation = Isolation::in_process;
  std::string isolation_place;  ///< of the manifest's word on it; empty: it has none
  ProcessLimits process_limits;
  std::vector<graph::Attribute> config;
  std::map<std::string, std::string, std::less<>> config_docs;  ///< what its descriptor says of settings
  std::vector<std::pair<std::string, std::string>> rule_files;  ///< path, text
  std::vector<DescribedPass> passes;
  std::vector<Alias> aliases;
  std::optional<Error> fault;  ///< why its files cannot be had; what load() then gives
};

/// An alias of a plugin that is loaded; once settled, `op` names an op that is defined.
struct AliasEntry {
  Alias alias;
  const LoadedPlugin* plugin = nullptr;
};

/// A pass or the rules of one set at one phase, before ordering.
struct PassEntry {
  std::string name, phase;
  std::vector<std::string> after, before;
  const LoadedPlugin* plugin = nullptr;
  const fe_pass* pass = nullptr;  ///< null for rules
  size_t rule_set = 0;            ///< index into Registry::rule_sets()
  bool enabled = true;
  /// Where a manifest or descriptor added a name to "after" or "before", by that word and the name.
  std::map<std::pair<std::string, std::string>, std::string> places;
  PassLimits limits;
  std::optional<Expectation> expect;
  std::vector<std::string> rules;                                     ///< of a rule set: those for this phase
  std::map<std::string, Expectation, std::less<>> rule_expectations;  ///< of these
};

struct RuleSetEntry {
  std::string text, file;
  std::string
      pass;  ///< what manifests and --pass call it: no path, so that a manifest holds on every machine
  std::span<const fe_predicate> predicates;
  const LoadedPlugin* plugin = nullptr;
};

/// Starts the process of a plugin that is isolated. It loads `op_plugins` too, which may grow until the first call of the plugin
/// and outlive the process.
using StartPlugin = std::function<Result<std::shared_ptr<PluginProcess>>(
    const PluginRequest& request, const std::deque<PluginRequest>& op_plugins)>;

/// Loads plugins and holds their contributions. Immutable after the last load(); then any-thread.
class Registry : public Backends {
 public:
  /// `start` may be empty: then no plugin can be isolated.
  explicit Registry(const fe_host& host, StartPlugin start = {});

  /// Opens the library, checks entry, version and id, creates the plugin and registers everything it contributes, or nothing.
  /// Codes: FE-P01 no such library, FE-P02 it does not load, FE-P03 no entry symbol, FE-P04 another ABI version, FE-P05 its id is
  /// not the one expected, FE-P06 create failed, FE-P07 a contribution is malformed, FE-P08 an id or op is taken. The library of an
  /// isolated plugin is loaded by its child and never here; besides these there are then FE-P26 to FE-P32.
  Result<const LoadedPlugin*> load(const PluginRequest& request);

  /// An op of the core's own, which outlives the registry.
  Result<void> add_core_op(const fe_op_def& def) { return ops_.add(def, std::string(core_id)); }
  static constexpr std::string_view core_id = "ferrite";

  const graph::OpRegistry& ops() const { return ops_; }
  /// Lowerings for an op on a device kind, the latest registered first.
  std::vector<Contributed<fe_lowering>> lowerings(std::string_view op, std::string_view device) const;
  /// Decompositions of other plugins for an op, the latest registered first.
  std::vector<Contributed<fe_decomposition>> decompositions(std::string_view op) const;
  const std::vector<PassEntry>& passes() const { return passes_; }
  std::vector<PassEntry>& passes() { return passes_; }
  const std::vector<RuleSetEntry>& rule_sets() const { return rule_sets_; }
  /// Reads all rules, once every op is known, and adds a pass for each phase of each set. Call after the last load().
  Result<void> compile_rules();
  const rewrite::CompiledRules& compiled_rules(size_t rule_set) const { return compiled_rules_[rule_set]; }
  const std::vector<Contributed<fe_importer>>& importers() const { return importers_; }
  /// No two of them read one version of a source op.
  const std::vector<Contributed<fe_import_handler>>& import_handlers() const { return import_handlers_; }
  /// By source op, each once.
  const std::map<std::string, AliasEntry, std::less<>>& aliases() const { return aliases_; }
  /// Finds the op of each alias. FE-P95 where it is not defined, or the plugin has none or several to choose from; FE-P96 where
  /// one, or an import handler, is for a format that nothing reads. Call after the last load().
  Result<void> settle_aliases();
  // In the order of the manifest: the first one that has an opinion is heard.
  const std::vector<Contributed<fe_fusion_policy>>& fusion_policies() const { return fusion_policies_; }
  const std::vector<Contributed<fe_cost_model>>& cost_models() const { return cost_models_; }
  const std::vector<Contributed<fe_metric_sink>>& metric_sinks() const { return metric_sinks_; }

 private:
  Result<void> add(const LoadedPlugin& plugin, const fe_contribution& contribution);
  Result<void> add_import_handler(const LoadedPlugin& plugin, const fe_import_handler& table);

  const fe_host& host_;
  StartPlugin start_;
  graph::OpRegistry ops_;
  std::deque<PluginRequest> op_plugins_;  ///< what isolated plugins load besides themselves
  std::vector<Contributed<fe_lowering>> lowerings_;
  std::vector<Contributed<fe_decomposition>> decompositions_;
  std::vector<PassEntry> passes_;
  std::vector<RuleSetEntry> rule_sets_;
  std::vector<rewrite::CompiledRules> compiled_rules_;
  std::vector<Contributed<fe_importer>> importers_;
  std::vector<Contributed<fe_import_handler>> import_handlers_;
  std::map<std::string, AliasEntry, std::less<>> aliases_;
  std::vector<Contributed<fe_fusion_policy>> fusion_policies_;
  std::vector<Contributed<fe_cost_model>> cost_models_;
  std::vector<Contributed<fe_metric_sink>> metric_sinks_;
};

/// The order in which passes of one phase run: a topological sort of after and before, ties by plugin id and name. FE-M10 for a
/// cycle, with its edges, at a place in a manifest that has part in it, else at the plugin.
Result<std::vector<const PassEntry*>> order_passes(const std::vector<PassEntry>& passes,
                                                   std::string_view phase);

/// Why one pass of a phase runs before another.
struct OrderEdge {
  const PassEntry *first = nullptr, *second = nullptr;
  std::string reason;  ///< "'acme.a' says before = \"acme.b\", ferrite.toml:5:11"
};
/// The edges of a phase that order_passes() sorts by: of passes that are there and enabled, in the order of `passes`.
std::vector<OrderEdge> order_edges(const std::vector<PassEntry>& passes, std::string_view phase);

/// The phases that exist.
std::span<const std::string_view> phases();

}  // namespace ferrite::core::plugin
