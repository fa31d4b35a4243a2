// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "driver/isolate/isolated_plugin.h"

#include <algorithm>
#include <filesystem>

#include "core/ir/flat/flat_graph.h"
#include "core/support/abi/abi.h"
#include "core/support/log.h"
#include "driver/config/manifest.h"

namespace ferrite::core::isolate {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds least_start_time{10'000}, goodbye_time{1'000};
/// The contents of larger constants in memory are not sent: the plugin sees such a constant without its
/// contents.
constexpr uint64_t most_data = 64 << 20;

/// Beside share/ferrite, in a build tree and in an installation.
std::string host_program() {
  const std::filesystem::path manifest = plugin::installed_files().default_manifest;
  return (manifest.parent_path().parent_path().parent_path() / "libexec/ferrite/ferrite-plugin-host")
      .string();
}

void put_request(Encoder& to, const plugin::PluginRequest& request) {
  to.put(request.id);
  to.put(request.library);
  to.put(request.library_sha256);
  to.put(request.why);
  to.put(uint64_t{request.config.size()});
  for (const graph::Attribute& setting : request.config) put(to, setting);
}

/// Wraps a function of a table: no exception crosses the ABI, and an error becomes a status.
template <class Function>
int32_t guarded(fe_call* call, Function function) noexcept {
  try {
    Result<void> done = function();
    return done ? FE_OK : abi::report(call, done.error());
  } catch (const std::bad_alloc&) {
    return abi::report(call, error(FE_ENOMEM, "FE-P22", "out of memory"));
  }
}

}  // namespace

Plugin::Plugin(plugin::PluginRequest request, const std::deque<plugin::PluginRequest>& op_plugins)
    : request_(std::move(request)), op_plugins_(op_plugins), id_(request_.id) {}

Result<std::shared_ptr<Plugin>> Plugin::open(const plugin::PluginRequest& request,
                                             const std::deque<plugin::PluginRequest>& op_plugins) {
  std::shared_ptr<Plugin> plugin(new Plugin(request, op_plugins));
  std::lock_guard lock(plugin->mutex_);
  FE_CHECK(plugin->ensure_running());
  return plugin;
}

Plugin::~Plugin() {
  if (!process_) return;
  // A child that does not answer is killed anyway.
  Encoder goodbye;
  goodbye.put(Request::goodbye);
  static_cast<void>(process_->call(goodbye.bytes(), goodbye_time));
}

pid_t Plugin::child() const {
  std::lock_guard lock(mutex_);
  return process_ ? process_->id() : -1;
}

Error Plugin::blame(std::string_view callback, Error error) const {
  error.text = fmt::format("plugin '{}', {}: {}", id_, callback, error.text);
  return error;
}

Error Plugin::fail(std::string_view callback, Error error) {
  process_.reset();
  uploaded_.reset();
  last_failure_ = fmt::format("{} {}: {}", error.code, callback, error.text);
  return blame(callback, std::move(error));
}

Error Plugin::garbage(std::string_view callback) {
  return fail(callback, error(FE_EINTERNAL, "FE-P29", "its process gave a malformed answer, and was ended"));
}

/// Sends one request and returns its reply, including the status. After an error the child is gone.
Result<Bytes> Plugin::send(std::string_view callback, const Bytes& request, milliseconds timeout,
                           const fe_call* call) {
  std::function<bool()> cancelled;
  if (call && call->cancelled) cancelled = [call] { return call->cancelled(call->host) != 0; };
  auto reply = process_->call(request, timeout, cancelled);
  if (reply) return reply;
  return fail(callback, std::move(reply.error()));
}

/// The status of a reply. An error here is the callback's own, and the child survives it.
Result<void> Plugin::check(std::string_view callback, const Bytes& reply) {
  Decoder from(reply);
  auto status = get_status(from);
  if (!from.ok()) return garbage(callback);
  if (status) return {};
  // The callback may have failed before the graph arrived.
  uploaded_.reset();
  if (status.error().status == FE_ENOMEM)
    return blame(callback, error(FE_ENOMEM, "FE-P32", "it needs more memory than the {} MiB of its process",
                                 request_.process_limits.memory >> 20));
  return status;
}

Result<Bytes> Plugin::ask(std::string_view callback, const Encoder& request, const fe_call* call) {
  FE_TRY(Bytes reply, send(callback, request.bytes(), request_.process_limits.timeout, call));
  FE_CHECK(check(callback, reply));
  return reply;
}

Result<void> Plugin::ensure_running() {
  const milliseconds start_time = std::max(least_start_time, request_.process_limits.timeout);
  if (process_ && process_->is_inherited()) {
    process_.reset();
    ++left_;
  }
  if (!process_) {
    if (starts_ - left_ >= request_.process_limits.starts)
      return blame(
          "start",
          error(FE_EINTERNAL, "FE-P31", "{} of its processes have failed, and no other is started{}{}",
                starts_ - left_, last_failure_.empty() ? "" : "; the last one: ", last_failure_));
    // A new child has neither the graph nor the other plugins.
    uploaded_.reset();
    loaded_ = 0;
    ++starts_;
    FE_TRY(process_, Process::start(host_program()));
    Encoder hello;
    hello.put(Request::hello);
    hello.put(request_.process_limits.memory);
    hello.put(log::enabled_channels());
    put_request(hello, request_);
    FE_TRY(Bytes reply, send("start", hello.bytes(), start_time, nullptr));
    if (auto status = check("start", reply); !status) {
      process_.reset();
      return status;
    }
    if (description_.empty()) {
      FE_CHECK(read_description(reply));
      description_ = std::move(reply);
    } else if (reply != description_) {
      // The registered tables describe the first child, so later ones must agree.
      return garbage("start");
    }
  }
  for (; loaded_ < op_plugins_.size(); ++loaded_) {
    Encoder load;
    load.put(Request::load);
    put_request(load, op_plugins_[loaded_]);
    FE_TRY(const Bytes reply, send("start", load.bytes(), start_time, nullptr));
    FE_CHECK(check("start", reply));
  }
  return {};
}

Result<void> Plugin::read_description(std::span<const std::byte> description) {
  Decoder from(description);
  static_cast<void>(get_status(from));
  id_ = from.text();
  version_ = from.text();
  for (uint64_t left = from.count(); left > 0 && from.ok(); --left) {
    auto& pass = passes_.emplace_back();
    pass.plugin = this;
    pass.index = static_cast<uint32_t>(passes_.size() - 1);
    pass.name = from.text();
    pass.phase = from.text();
    pass.after = from.texts();
    pass.before = from.texts();
    pass.table = pass_table(pass);
    contributions_.push_back({FE_CONTRIBUTION_PASS, 0, &pass.table});
  }
  for (uint64_t left = from.count(); left > 0 && from.ok(); --left) {
    auto& set = rules_.emplace_back();
    set.text = from.text();
    set.file = from.text();
    for (const std::string& name : from.texts()) {
      auto& function = set.functions.emplace_back();
      function.plugin = this;
      function.set = static_cast<uint32_t>(rules_.size() - 1);
      function.index = static_cast<uint32_t>(set.functions.size() - 1);
      function.name = name;
      set.predicates.push_back(predicate_table(function));
    }
    set.table = abi::sized<fe_rule_set>();
    set.table.rev = 1;
    set.table.text = abi::string(std::string_view(set.text));
    set.table.file = abi::string(std::string_view(set.file));
    set.table.predicates = abi::array(set.predicates);
    contributions_.push_back({FE_CONTRIBUTION_RULES, 0, &set.table});
  }
  for (uint64_t left = from.count(); left > 0 && from.ok(); --left) {
    auto& provider = providers_.emplace_back();
    provider.plugin = this;
    provider.index = static_cast<uint32_t>(providers_.size() - 1);
    provider.id = from.text();
    provider.device_kind = from.text();
    provider.table = provider_table(provider);
    provider.table.rev = from.get<uint32_t>();
    provider.table.max_flat_revision = from.get<uint32_t>();
    provider.table.features = from.get<uint64_t>();
    if (from.get<uint8_t>() == 0) provider.table.propose = nullptr;
    if (from.get<uint8_t>() == 0) provider.table.compile = nullptr;
    if (from.get<uint8_t>() == 0) provider.table.fingerprint = nullptr;
    if (from.get<uint8_t>() == 0) provider.table.claim = nullptr;
    contributions_.push_back({FE_CONTRIBUTION_PROVIDER, 0, &provider.table});
  }
  return from.done() ? Result<void>() : Result<void>(garbage("start"));
}

/// Sends the graph, unless the child has it already.
Result<void> Plugin::put_graph(Encoder& to, graph::GraphApi& api) {
  const graph::Graph& graph = api.graph();
  const bool known =
      uploaded_ && uploaded_->serial == api.serial() && uploaded_->revision == graph.revision();
  to.put(uint8_t{!known});
  if (known) return {};
  uploaded_.reset();
  FE_TRY(graph::FlatBytes flat,
         graph::write_flat(graph, graph::FlatOptions{.max_data = most_data, .keep = {}}));
  const std::string& folder = graph.weight_folder();
  std::error_code failed;
  to.put(std::filesystem::absolute(folder.empty() ? "." : folder, failed).string());
  to.put(flat.bytes);
  uploaded_.emplace();
  uploaded_->serial = api.serial();
  uploaded_->revision = graph.revision();
  uploaded_->names = {std::move(flat.nodes), std::move(flat.values)};
  return {};
}

/// Replays the callback's edits here and returns its answer.
Result<bool> Plugin::finish_graph_call(std::string_view callback, const Bytes& reply,
                                       const fe_graph_api& api) {
  Decoder from(reply);
  static_cast<void>(get_status(from));
  const bool answer = from.get<uint8_t>() != 0;
  const auto edits = from.bytes();
  if (!from.done()) return garbage(callback);
  if (edits.empty()) return answer;
  // A log that cannot be replayed comes from a faulty child, which is not used any more.
  if (auto done = replay(edits, api, uploaded_->names); !done) return fail(callback, std::move(done.error()));
  return answer;
}

Result<bool> Plugin::run_pass(const PassTable& pass, const fe_call* call, const fe_pass_args& args) {
  const std::string callback = fmt::format("pass '{}'", pass.name);
  FE_CHECK(ensure_running());
  Encoder request;
  request.put(Request::pass);
  request.put(pass.index);
  FE_CHECK(put_graph(request, graph::GraphApi::of(*args.graph)));
  FE_TRY(const Bytes reply, ask(callback, request, call));
  return finish_graph_call(callback, reply, *args.graph);
}

Result<bool> Plugin::accept(const PredicateTable& predicate, const fe_call* call, const fe_match_args& args) {
  const std::string callback = fmt::format("predicate '{}'", predicate.name);
  FE_CHECK(ensure_running());
  Encoder request;
  request.put(Request::predicate);
  request.put(predicate.set);
  request.put(predicate.index);
  FE_CHECK(put_graph(request, graph::GraphApi::of(*args.graph)));
  Uploaded& uploaded = *uploaded_;
  if (uploaded.value_numbers.empty()) {
    for (uint32_t k = 0; k < uploaded.names.nodes.size(); ++k)
      uploaded.node_numbers.emplace(uploaded.names.nodes[k].bits, k);
    for (uint32_t k = 0; k < uploaded.names.values.size(); ++k)
      uploaded.value_numbers.emplace(uploaded.names.values[k].bits, k);
  }
  const auto number = [](const auto& numbers, uint64_t handle) {
    const auto found = numbers.find(handle);
    return found == numbers.end() ? FE_NONE32 : found->second;
  };
  std::vector<std::string> names;
  std::vector<uint32_t> values;
  for (uint64_t k = 0; k < args.names.count; ++k)
    names.push_back(abi::string(abi::element<fe_string>(args.names, k)));
  for (uint64_t k = 0; k < args.values.count; ++k)
    values.push_back(number(uploaded.value_numbers, abi::element<fe_value>(args.values, k)));
  request.put(names);
  request.put(values);
  request.put(number(uploaded.node_numbers, args.root));
  request.put(args.attrs.count);
  for (uint64_t k = 0; k < args.attrs.count; ++k) {
    FE_TRY(const graph::Attribute attribute, graph::read_attribute(abi::element<fe_attr>(args.attrs, k)));
    put(request, attribute);
  }
  FE_TRY(const Bytes reply, ask(callback, request, call));
  return finish_graph_call(callback, reply, *args.graph);
}

fe_pass Plugin::pass_table(PassTable& entry) {
  for (const std::string& name : entry.after) entry.abi_after.push_back(abi::string(std::string_view(name)));
  for (const std::string& name : entry.before)
    entry.abi_before.push_back(abi::string(std::string_view(name)));
  auto table = abi::sized<fe_pass>();
  table.rev = 1;
  table.self = &entry;
  table.name = abi::string(std::string_view(entry.name));
  table.phase = abi::string(std::string_view(entry.phase));
  table.after = abi::array(entry.abi_after);
  table.before = abi::array(entry.abi_before);
  table.run = [](void* self, fe_call* call, const fe_pass_args* args, fe_pass_out* out) -> int32_t {
    return guarded(call, [&]() -> Result<void> {
      const auto& pass = *static_cast<PassTable*>(self);
      std::lock_guard lock(pass.plugin->mutex_);
      FE_TRY(const bool changed, pass.plugin->run_pass(pass, call, *args));
      out->changed = changed;
      return {};
    });
  };
  return table;
}

fe_predicate Plugin::predicate_table(PredicateTable& entry) {
  auto table = abi::sized<fe_predicate>();
  table.self = &entry;
  table.name = abi::string(std::string_view(entry.name));
  table.accept = [](void* self, fe_call* call, const fe_match_args* args, fe_predicate_out* out) -> int32_t {
    return guarded(call, [&]() -> Result<void> {
      const auto& predicate = *static_cast<PredicateTable*>(self);
      std::lock_guard lock(predicate.plugin->mutex_);
      FE_TRY(const bool accepted, predicate.plugin->accept(predicate, call, *args));
      out->accepted = accepted;
      return {};
    });
  };
  return table;
}

}  // namespace ferrite::core::isolate
