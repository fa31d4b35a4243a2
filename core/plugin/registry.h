// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The registry of loaded plugins and their contributions: ops, lowerings, rule sets, passes, providers,
// runtimes, importers,
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

/// The limits on the child process of one isolated plugin.
struct ProcessLimits {
  std::chrono::milliseconds timeout{10'000};  ///< per callback
  uint64_t memory = uint64_t{4} << 30;        ///< bytes of address space, including mapped weights
  uint32_t starts = 4;  ///< the number of child processes that may fail before no more are started
};

enum class PassMode : uint8_t { once, fixpoint };
/// How a pass or a rule set runs; an empty field means the default for its kind.
struct PassLimits {
  std::optional<PassMode> mode;        ///< the default is fixpoint for rules, once for others
  std::optional<size_t> max_rewrites;  ///< applications per rule; changes per pass with mode = "fixpoint"
  std::optional<std::chrono::milliseconds> timeout;  ///< per compilation
};
inline constexpr size_t default_max_rewrites = 100'000;

/// The expected number of applications: ">=1", "<=8", "==12".
struct Expectation {
  size_t least = 0, most = SIZE_MAX;
  std::string text, where;
  bool holds(size_t count) const { return count >= least && count <= most; }
};

/// The description of one of a plugin's passes in its descriptor.
struct DescribedPass {
  std::string name, where, phase;  ///< empty phase: not stated
  std::optional<std::vector<std::string>> after, before;
  std::map<std::string, std::string, std::less<>> places;  ///< positions of the keys
  PassLimits limits;
};

/// An entry of a descriptor that maps an op of model files to an op of a plugin.
struct Alias {
  std::string source;  ///< "onnx:com.acme::FusedRope"
  std::string op;      ///< the op's name; empty: the only op that the plugin defines
  std::string where;   ///< file:line:col
};

/// The suffix of the file that describes a plugin, next to its library.
inline constexpr std::string_view descriptor_suffix = ".plugin.toml";

/// A request to load a plugin, from the manifest or --plugin.
struct PluginRequest {
  std::string id;
  std::string version, version_place;  ///< from the descriptor, and its position; empty without one
  std::string library;                 ///< absolute path
  /// Position of 'library' in the manifest or descriptor; empty: given by --plugin.
  std::string library_place;
  std::string library_sha256;                ///< from the lock; empty: do not check
  std::string descriptor;                    ///< path; empty: none
  std::vector<std::string> tried;            ///< paths at which no descriptor was found
  std::vector<std::string> needs, provides;  ///< from the descriptor
  bool given = false;                        ///< by --plugin
  std::string why;  ///< who requested it: "share/ferrite/default.toml:4:3", "--plugin"
  OnError on_error = OnError::fail;
  Isolation isolation = Isolation::in_process;
  std::string isolation_place;  ///< position of the manifest's 'isolation'; empty: not stated
  ProcessLimits process_limits;
  std::vector<graph::Attribute> config;
  /// The descriptor's documentation of the plugin's settings.
  std::map<std::string, std::string, std::less<>> config_docs;
  std::vector<std::pair<std::string, std::string>> rule_files;  ///< path, text
  std::vector<DescribedPass> passes;
  std::vector<Alias> aliases;
  std::optional<Error> fault;  ///< why its files could not be read; load() then returns it
};

/// An alias of a loaded plugin. After settle_aliases(), `op` names a defined op.
struct AliasEntry {
  Alias alias;
  const LoadedPlugin* plugin = nullptr;
};

/// A pass, or the rules of one set for one phase, before ordering.
struct PassEntry {
  std::string name, phase;
  std::vector<std::string> after, before;
  const LoadedPlugin* plugin = nullptr;
  const fe_pass* pass = nullptr;  ///< null for rules
  size_t rule_set = 0;            ///< index into Registry::rule_sets()
  bool enabled = true;
  /// Where a manifest or descriptor added a name to "after" or "before", by that keyword and the name.
  std::map<std::pair<std::string, std::string>, std::string> places;
  PassLimits limits;
  std::optional<Expectation> expect;
  std::vector<std::string> rules;  ///< of a rule set: the rules for this phase
  std::map<std::string, Expectation, std::less<>> rule_expectations;  ///< by rule
};

struct RuleSetEntry {
  std::string text, file;
  /// The name in manifests and --pass; it contains no path, so that a manifest works on every machine.
  std::string pass;
  std::span<const fe_predicate> predicates;
  const LoadedPlugin* plugin = nullptr;
};

/// Starts the process of an isolated plugin. The process also loads `op_plugins`; that list may grow until
/// the first call of the plugin, and outlives the process.
using StartPlugin = std::function<Result<std::shared_ptr<PluginProcess>>(
    const PluginRequest& request, const std::deque<PluginRequest>& op_plugins)>;

/// Loads plugins and holds their contributions. Immutable after the last load(), and any-thread from then on.
class Registry : public Backends {
 public:
  /// If `start` is empty, no plugin can be isolated.
  explicit Registry(const fe_host& host, StartPlugin start = {});

  /// Opens the library, checks entry, version and id, creates the plugin and registers all of its
  /// contributions, or none on an error.
  /// FE-P01 the library does not exist, FE-P02 it does not load, FE-P03 it has no entry symbol, FE-P04
  /// another ABI version, FE-P05 an unexpected id, FE-P06 create failed, FE-P07 a malformed contribution,
  /// FE-P08 an id or op is already taken. The library of an isolated plugin is loaded by its child process
  /// only; FE-P26 to FE-P32 are then possible, too.
  Result<const LoadedPlugin*> load(const PluginRequest& request);

  /// Adds an op of the core itself. `def` must outlive the registry.
  Result<void> add_core_op(const fe_op_def& def) { return ops_.add(def, std::string(core_id)); }
  static constexpr std::string_view core_id = "ferrite";

  const graph::OpRegistry& ops() const { return ops_; }
  /// The lowerings of an op for a device kind, the latest registered first.
  std::vector<Contributed<fe_lowering>> lowerings(std::string_view op, std::string_view device) const;
  /// The decompositions that other plugins provide for an op, the latest registered first.
  std::vector<Contributed<fe_decomposition>> decompositions(std::string_view op) const;
  const std::vector<PassEntry>& passes() const { return passes_; }
  std::vector<PassEntry>& passes() { return passes_; }
  const std::vector<RuleSetEntry>& rule_sets() const { return rule_sets_; }
  /// Parses and checks all rules, and adds a pass for each phase of each set. Call after the last load(),
  /// when every op is known.
  Result<void> compile_rules();
  const rewrite::CompiledRules& compiled_rules(size_t rule_set) const { return compiled_rules_[rule_set]; }
  const std::vector<Contributed<fe_importer>>& importers() const { return importers_; }
  /// At most one handler reads each version of a source op.
  const std::vector<Contributed<fe_import_handler>>& import_handlers() const { return import_handlers_; }
  /// The aliases, by source op.
  const std::map<std::string, AliasEntry, std::less<>>& aliases() const { return aliases_; }
  /// Finds the op of each alias. FE-P95 if the op is not defined, or none is named and the plugin does not
  /// define exactly one; FE-P96 if an alias or an import handler is for a format that no importer reads. Call
  /// after the last load().
  Result<void> settle_aliases();
  // In the order of the manifest: the first policy that has an opinion decides.
  const std::vector<Contributed<fe_fusion_policy>>& fusion_policies() const { return fusion_policies_; }
  const std::vector<Contributed<fe_cost_model>>& cost_models() const { return cost_models_; }
  const std::vector<Contributed<fe_metric_sink>>& metric_sinks() const { return metric_sinks_; }

 private:
  Result<void> add(const LoadedPlugin& plugin, const fe_contribution& contribution);
  Result<void> add_import_handler(const LoadedPlugin& plugin, const fe_import_handler& table);

  const fe_host& host_;
  StartPlugin start_;
  graph::OpRegistry ops_;
  std::deque<PluginRequest> op_plugins_;  ///< plugins with ops, which isolated plugins load as well
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

/// The order in which the passes of one phase run: a topological sort by "after" and "before"; ties break by
/// plugin id and name. FE-M10 for a cycle, with its edges, placed in a manifest that contributes to it, else
/// at the plugin.
Result<std::vector<const PassEntry*>> order_passes(const std::vector<PassEntry>& passes,
                                                   std::string_view phase);

/// A constraint that one pass of a phase runs before another, and its reason.
struct OrderEdge {
  const PassEntry *first = nullptr, *second = nullptr;
  std::string reason;  ///< "'acme.a' says before = \"acme.b\", ferrite.toml:5:11"
};
/// The constraints that order_passes() sorts by: between passes that exist and are enabled, in the order of
/// `passes`.
std::vector<OrderEdge> order_edges(const std::vector<PassEntry>& passes, std::string_view phase);

/// The names of all phases.
std::span<const std::string_view> phases();

}  // namespace ferrite::core::plugin
