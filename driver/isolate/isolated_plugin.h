// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A plugin in a process of its own, as the host sees it: the tables are those of any plugin, and their
// functions call the child.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/ir/graph/api.h"
#include "core/plugin/registry.h"
#include "core/support/error.h"
#include "driver/isolate/edits.h"
#include "driver/isolate/process.h"
#include "ferrite/abi/plugin.h"

namespace ferrite::core::isolate {

/// Passes and predicates of rules get a copy of the graph. The edits of a pass are replayed on the graph
/// itself, through its table, so that they are checked like those of a pass in this process. Providers get
/// the same arguments as in this process. All functions are any-thread; the child serves one call at a time.
///
/// A call fails with FE-P27 where the child ended, FE-P28 where it did not answer in time, FE-P29 where its
/// answer is malformed, and FE-P32 where it ran out of memory. The next call starts another child, or fails
/// with FE-P31 after too many restarts. Each error names the plugin and the callback. Other errors are the
/// plugin's own.
class Plugin : public plugin::PluginProcess {
 public:
  /// Starts the child, which loads the plugin and describes its contributions. FE-P26 where it cannot be
  /// started, FE-P30 where a contribution cannot be isolated; the codes of Registry::load(). The child also
  /// loads `op_plugins`, which must outlive the object and may grow until the first call.
  static Result<std::shared_ptr<Plugin>> open(const plugin::PluginRequest& request,
                                              const std::deque<plugin::PluginRequest>& op_plugins);
  ~Plugin() override;
  Plugin(const Plugin&) = delete;
  Plugin& operator=(const Plugin&) = delete;

  const std::string& id() const override { return id_; }
  const std::string& version() const override { return version_; }
  const std::vector<fe_contribution>& contributions() const override { return contributions_; }
  pid_t child() const override;

 private:
  struct PassTable {
    Plugin* plugin = nullptr;
    uint32_t index = 0;
    std::string name, phase;
    std::vector<std::string> after, before;
    std::vector<fe_string> abi_after, abi_before;
    fe_pass table{};
  };
  struct PredicateTable {
    Plugin* plugin = nullptr;
    uint32_t set = 0, index = 0;
    std::string name;
  };
  struct RuleTable {
    std::string text, file;
    std::deque<PredicateTable> functions;
    std::vector<fe_predicate> predicates;
    fe_rule_set table{};
  };
  /// A target of a provider. It is opened again in a new child if the old child is gone.
  struct Target {
    Bytes description;
    uint64_t number = 0, start = 0;
    std::string name;
    std::vector<fe_capability> capabilities;
    fe_target_numbers numbers{};
  };
  struct ProviderTable {
    Plugin* plugin = nullptr;
    uint32_t index = 0;
    std::string id, device_kind;
    std::vector<std::unique_ptr<Target>> targets;
    fe_provider table{};
  };
  /// The graph that the child has.
  struct Uploaded {
    uint64_t serial = 0, revision = 0;
    Names names;
    std::unordered_map<uint64_t, uint32_t> node_numbers, value_numbers;  ///< filled for the first predicate
  };

  Plugin(plugin::PluginRequest request, const std::deque<plugin::PluginRequest>& op_plugins);

  // The functions below require the mutex to be held.
  Result<void> ensure_running();
  Result<void> read_description(std::span<const std::byte> description);
  Result<Bytes> send(std::string_view callback, const Bytes& request, std::chrono::milliseconds timeout,
                     const fe_call* call);
  Result<void> check(std::string_view callback, const Bytes& reply);
  Result<Bytes> ask(std::string_view callback, const Encoder& request, const fe_call* call = nullptr);
  Error blame(std::string_view callback, Error error) const;
  /// Ends the child after a failure.
  Error fail(std::string_view callback, Error error);
  Error garbage(std::string_view callback);
  Result<void> put_graph(Encoder& to, graph::GraphApi& api);
  Result<bool> finish_graph_call(std::string_view callback, const Bytes& reply, const fe_graph_api& api);
  Result<Target*> reopen(ProviderTable& provider, void* target);
  Result<void> open_in_child(ProviderTable& provider, Target& target, fe_open_target_out& out);

  Result<bool> run_pass(const PassTable& pass, const fe_call* call, const fe_pass_args& args);
  Result<bool> accept(const PredicateTable& predicate, const fe_call* call, const fe_match_args& args);
  Result<void> open_target(ProviderTable& provider, const fe_open_target_args& args, fe_open_target_out& out);
  Result<void> close_target(ProviderTable& provider, void* target);
  Result<void> propose(ProviderTable& provider, const fe_propose_args& args, const fe_propose_out& out);
  Result<void> compile(ProviderTable& provider, const fe_compile_args& args, fe_compile_out& out);
  Result<void> fingerprint(ProviderTable& provider, const fe_sink& out);
  Result<void> claim(ProviderTable& provider, const fe_claim_args& args, const fe_claim_out& out);

  static fe_pass pass_table(PassTable& entry);
  static fe_predicate predicate_table(PredicateTable& entry);
  static fe_provider provider_table(ProviderTable& entry);

  const plugin::PluginRequest request_;
  const std::deque<plugin::PluginRequest>& op_plugins_;
  mutable std::mutex mutex_;
  std::unique_ptr<Process> process_;
  uint64_t starts_ = 0;       ///< number of children so far; also the number of the current one
  uint64_t left_ = 0;         ///< how many of them were left to a process from which this one was forked
  std::string last_failure_;  ///< how the last failed child ended
  size_t loaded_ = 0;         ///< number of op_plugins_ that it has loaded
  Bytes description_;         ///< from the first child; later ones must give the same
  std::optional<Uploaded> uploaded_;
  std::string id_, version_;
  std::deque<PassTable> passes_;
  std::deque<RuleTable> rules_;
  std::deque<ProviderTable> providers_;
  std::vector<fe_contribution> contributions_;
};

}  // namespace ferrite::core::isolate
