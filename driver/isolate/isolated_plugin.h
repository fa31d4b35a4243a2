// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A plugin in a process of its own, as the program sees it: the same tables as any other's, whose functions ask the child.
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

/// Passes and predicates of rules get a copy of the graph; the edits of a pass are made again on the graph itself, through its table,
/// so that the checks are those of a pass in this process. Providers get what they would get here. All functions are any-thread;
/// the child answers one at a time.
///
/// A call fails with FE-P27 where the child ended, FE-P28 where it did not answer in time, FE-P29 where its answer is none, FE-P32
/// where it had not enough memory; the next call starts another child, FE-P31 where that was done too often. Each names plugin and
/// callback. Other errors are the plugin's own.
class Plugin : public plugin::PluginProcess {
 public:
  /// Starts the child, which loads the plugin and says what it contributes. FE-P26 where it cannot be started, FE-P30 where it
  /// contributes what cannot be isolated; the codes of Registry::load(). `op_plugins`, which may grow until the first call and
  /// outlives the object, are loaded by the child too.
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
  /// A target of a provider: opened again where the child that had it is gone.
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

  // What follows is called with the mutex held.
  Result<void> ensure_running();
  Result<void> read_description(std::span<const std::byte> description);
  Result<Bytes> send(std::string_view callback, const Bytes& request, std::chrono::milliseconds timeout,
                     const fe_call* call);
  Result<void> check(std::string_view callback, const Bytes& reply);
  Result<Bytes> ask(std::string_view callback, const Encoder& request, const fe_call* call = nullptr);
  Error blame(std::string_view callback, Error error) const;
  /// Ends the child, which failed.
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
  uint64_t starts_ = 0;       ///< how many children there were; the number of the one that runs
  std::string last_failure_;  ///< how the last one that failed did
  size_t loaded_ = 0;         ///< of op_plugins_, by it
  Bytes description_;         ///< what the first one said; the others say the same
  std::optional<Uploaded> uploaded_;
  std::string id_, version_;
  std::deque<PassTable> passes_;
  std::deque<RuleTable> rules_;
  std::deque<ProviderTable> providers_;
  std::vector<fe_contribution> contributions_;
};

}  // namespace ferrite::core::isolate
