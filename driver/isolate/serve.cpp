// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "driver/isolate/serve.h"

#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <thread>

#include "core/ir/flat/flat_graph.h"
#include "core/ir/graph/infer.h"
#include "core/lower/lower.h"
#include "core/plugin/registry.h"
#include "core/select/pack.h"
#include "core/support/abi/abi.h"
#include "core/support/sanitizer.h"
#include "core/support/warning.h"
#include "driver/isolate/edits.h"
#include "driver/isolate/process.h"
#include "runtime/host.h"
#include "runtime/target/number_table.h"

namespace ferrite::core::isolate {
namespace {

/// The graph that callbacks see: a copy that is restored after each of them.
struct HeldGraph {
  HeldGraph(graph::FlatRead read, const plugin::Registry& registry)
      : graph(std::move(read.graph)),
        names{std::move(read.nodes), std::move(read.values)},
        evaluator(registry),
        api(graph, registry.ops()),
        recorder(api, names) {
    api.set_evaluate([this](graph::Graph& g, graph::ValueId value) { return evaluator.evaluate(g, value); });
  }
  graph::Graph graph;
  Names names;
  lower::Evaluator evaluator;
  graph::GraphApi api;
  Recorder recorder;
};

void limit(int resource, rlim_t most) {
  const rlimit both{most, most};
  ::setrlimit(static_cast<__rlimit_resource_t>(resource), &both);
}

Error malformed() { return error(FE_EINVALID, "FE-P29", "a request cannot be read"); }

class Server {
 public:
  /// The whole reply.
  Bytes answer(std::span<const std::byte> request) {
    Encoder body;
    Result<void> done;
    try {
      Decoder from(request);
      done = handle(from, body);
    } catch (const std::bad_alloc&) {
      done = error(FE_ENOMEM, "FE-P32", "out of memory");
    } catch (const std::exception& exception) {
      done = error(FE_EINTERNAL, "FE-P21", "{}", exception.what());
    }
    Encoder reply;
    put_status(reply, done ? FE_OK : done.error().status, done.error());
    Bytes bytes = reply.take();
    // The partial body of a failed request is dropped.
    if (done) bytes.insert(bytes.end(), body.bytes().begin(), body.bytes().end());
    return bytes;
  }
  bool finished() const { return finished_; }

 private:
  Result<void> handle(Decoder& from, Encoder& to) {
    const auto request = from.get<Request>();
    if (request == Request::hello) return hello(from, to);
    if (!plugin_) return malformed();
    switch (request) {
      case Request::load: return load(from);
      case Request::pass: return pass(from, to);
      case Request::predicate: return predicate(from, to);
      case Request::open_target: return open_target(from, to);
      case Request::close_target: return close_target(from);
      case Request::propose: return propose(from, to);
      case Request::compile: return compile(from, to);
      case Request::fingerprint: return fingerprint(from, to);
      case Request::claim: return claim(from, to);
      case Request::goodbye:
        held_.reset();
        registry_.reset();
        finished_ = true;
        return {};
      default: return malformed();
    }
  }

  static Result<plugin::PluginRequest> read_request(Decoder& from) {
    plugin::PluginRequest request;
    request.id = from.text();
    request.library = from.text();
    request.library_sha256 = from.text();
    request.why = from.text();
    for (uint64_t left = from.count(); left > 0 && from.ok(); --left)
      request.config.push_back(get_attribute(from));
    if (!from.done()) return malformed();
    return request;
  }

  Result<void> hello(Decoder& from, Encoder& to) {
    const auto memory = from.get<uint64_t>();
    FE_CHECK(log::enable(from.text()));
    log::show_warnings();
    FE_TRY(const auto request, read_request(from));
    // A crash of a plugin is an expected event, so it leaves no core file.
    limit(RLIMIT_CORE, 0);
    // Sanitizers reserve more address space than such a limit allows.
    if (!sanitized) limit(RLIMIT_AS, memory);
    host_ = plugin::make_host();
    registry_ = std::make_unique<plugin::Registry>(*host_);
    auto loaded = registry_->load(request);
    if (!loaded) return std::move(loaded.error());
    plugin_ = *loaded;
    FE_CHECK(refuse_what_needs_the_host());
    describe(to);
    return {};
  }

  /// Rejects contributions that need the host's memory, or that the host would call too often: ops, whose
  /// types are requested at each edit, lowerings, which hold recorders, and runtimes and importers.
  Result<void> refuse_what_needs_the_host() const {
    auto refused = [](std::string_view what) {
      return error(FE_EUNSUPPORTED, "FE-P30",
                   "it contributes {}, which works in the program's own process only; set isolation = "
                   "\"in-process\", or move it to a plugin of its own",
                   what);
    };
    for (const uint32_t kind : plugin_->kinds) switch (kind) {
        case FE_CONTRIBUTION_PASS:
        case FE_CONTRIBUTION_RULES:
        case FE_CONTRIBUTION_PROVIDER: break;
        case FE_CONTRIBUTION_OP: return refused("an op");
        case FE_CONTRIBUTION_LOWERING: return refused("a lowering");
        case FE_CONTRIBUTION_RUNTIME: return refused("a runtime");
        case FE_CONTRIBUTION_IMPORTER: return refused("an importer");
        case FE_CONTRIBUTION_IMPORT_HANDLER: return refused("an import handler");
        case FE_CONTRIBUTION_FUSION_POLICY: return refused("a fusion policy");
        case FE_CONTRIBUTION_COST_MODEL: return refused("a cost model");
        case FE_CONTRIBUTION_METRIC_SINK: return refused("a metric sink");
        default: return refused(fmt::format("something of kind {}", kind));
      }
    for (const auto& [table, of] : registry_->providers())
      if (abi::read(table).exec_create)
        return refused(fmt::format("provider '{}', which launches what it compiles", abi::view(table->id)));
    for (const auto& entry : registry_->passes())
      if (entry.phase == "pre_fusion" || entry.phase == "post_fusion")
        return refused(fmt::format("pass '{}' for {}", entry.name, entry.phase));
    return {};
  }

  void describe(Encoder& to) const {
    to.put(plugin_->id);
    to.put(plugin_->version);
    to.put(uint64_t{registry_->passes().size()});
    for (const auto& entry : registry_->passes()) {
      to.put(entry.name);
      to.put(entry.phase);
      to.put(entry.after);
      to.put(entry.before);
    }
    to.put(uint64_t{registry_->rule_sets().size()});
    for (const auto& set : registry_->rule_sets()) {
      to.put(set.text);
      to.put(set.file);
      std::vector<std::string> names;
      for (const auto& predicate : set.predicates) names.push_back(abi::string(predicate.name));
      to.put(names);
    }
    to.put(uint64_t{registry_->providers().size()});
    for (const auto& [table, of] : registry_->providers()) {
      to.put(abi::view(table->id));
      to.put(abi::view(table->device_kind));
      to.put(table->rev);
      to.put(table->max_flat_revision);
      to.put(table->features);
      to.put(uint8_t{table->propose != nullptr});
      to.put(uint8_t{table->compile != nullptr});
      to.put(uint8_t{table->fingerprint != nullptr});
      to.put(uint8_t{abi::read(table).claim != nullptr});
    }
  }

  Result<void> load(Decoder& from) {
    FE_TRY(const auto request, read_request(from));
    auto loaded = registry_->load(request);
    return loaded ? Result<void>() : Result<void>(std::move(loaded.error()));
  }

  Result<void> take_graph(Decoder& from) {
    if (from.get<uint8_t>() != 0) {
      const std::string folder(from.text());
      held_.reset();
      FE_TRY(auto read, graph::read_flat(from.bytes(), folder));
      held_ = std::make_unique<HeldGraph>(std::move(read), *registry_);
    }
    return held_ ? Result<void>() : Result<void>(malformed());
  }

  /// Runs a function that reads or edits the graph, then restores the graph and sends the edits.
  template <class Function>
  Result<void> with_graph(bool may_only_look, Encoder& to, Function function) {
    const graph::Mark mark = held_->graph.mark();
    held_->recorder.begin(may_only_look);
    auto result = function();
    // Also after an error, so that the next callback sees the same graph.
    FE_CHECK(held_->graph.rollback(mark));
    if (!result) return std::move(result.error());
    if (!held_->recorder.complete()) return error(FE_ENOMEM, "FE-P32", "out of memory");
    to.put(uint8_t{*result});
    to.put(held_->recorder.log());
    return {};
  }

  Result<void> pass(Decoder& from, Encoder& to) {
    const auto index = from.get<uint32_t>();
    FE_CHECK(take_graph(from));
    if (!from.done() || index >= registry_->passes().size()) return malformed();
    return with_graph(false, to, [&]() -> Result<bool> {
      auto args = abi::sized<fe_pass_args>();
      args.graph = held_->recorder.api();
      auto out = abi::sized<fe_pass_out>();
      const fe_pass& pass = *registry_->passes()[index].pass;
      abi::Call call;
      FE_CHECK(call.check(pass.run(pass.self, call.get(), &args, &out), "FE-P10", "it gave no reason"));
      return out.changed != 0;
    });
  }

  Result<void> predicate(Decoder& from, Encoder& to) {
    const auto set = from.get<uint32_t>(), index = from.get<uint32_t>();
    FE_CHECK(take_graph(from));
    const auto names = from.texts();
    const auto numbers = from.list<uint32_t>();
    const auto root = from.get<uint32_t>();
    std::vector<graph::Attribute> attributes;
    for (uint64_t left = from.count(); left > 0; --left) attributes.push_back(get_attribute(from));
    if (!from.done() || set >= registry_->rule_sets().size() || names.size() != numbers.size() ||
        index >= registry_->rule_sets()[set].predicates.size() || root >= held_->names.nodes.size())
      return malformed();
    std::vector<fe_string> given_names;
    std::vector<fe_value> values;
    for (size_t k = 0; k < names.size(); ++k) {
      if (numbers[k] != FE_NONE32 && numbers[k] >= held_->names.values.size()) return malformed();
      given_names.push_back(abi::string(std::string_view(names[k])));
      values.push_back(numbers[k] == FE_NONE32 ? 0 : held_->names.values[numbers[k]].bits);
    }
    return with_graph(true, to, [&]() -> Result<bool> {
      auto args = abi::sized<fe_match_args>();
      args.graph = held_->recorder.api();
      args.names = abi::array(given_names);
      args.values = abi::array(values);
      args.root = held_->names.nodes[root].bits;
      std::vector<fe_attr> views;
      std::deque<std::vector<fe_string>> strings;
      for (const graph::Attribute& attribute : attributes)
        views.push_back(graph::view_of(attribute, strings.emplace_back()));
      args.attrs = abi::array(views.data(), views.size());
      auto out = abi::sized<fe_predicate_out>();
      const fe_predicate predicate = abi::read(&registry_->rule_sets()[set].predicates[index]);
      abi::Call call;
      FE_CHECK(call.check(predicate.accept(predicate.self, call.get(), &args, &out), "FE-R16",
                          "did not say what is wrong"));
      return out.accepted != 0;
    });
  }

  Result<const fe_provider*> provider(Decoder& from) const {
    const auto index = from.get<uint32_t>();
    if (index >= registry_->providers().size()) return malformed();
    return registry_->providers()[index].table;
  }

  struct OpenTarget {
    const fe_provider* provider;
    fe_open_target_out target;
  };
  Result<OpenTarget*> target(Decoder& from) {
    const auto found = targets_.find(from.get<uint64_t>());
    if (found == targets_.end()) return malformed();
    return &found->second;
  }

  Result<void> open_target(Decoder& from, Encoder& to) {
    FE_TRY(const auto* const table, provider(from));
    const auto description = from.bytes();
    if (!from.done()) return malformed();
    auto args = abi::sized<fe_open_target_args>();
    args.description = {description.data(), description.size(), 1};
    auto out = abi::sized<fe_open_target_out>();
    abi::Call call;
    FE_CHECK(call.check(table->open_target(table->self, call.get(), &args, &out), "FE-D05",
                        "the provider cannot compile for this device"));
    targets_.emplace(++last_target_, OpenTarget{table, out});
    to.put(last_target_);
    to.put(abi::view(out.name));
    to.put(out.vector_bytes);
    to.put(out.buffer_alignment);
    to.put(out.local_bytes);
    to.put(out.statement_kinds);
    std::vector<uint64_t> capabilities;
    for (uint64_t k = 0; abi::readable<fe_capability>(out.capabilities) && k < out.capabilities.count; ++k) {
      const auto given = abi::element<fe_capability>(out.capabilities, k);
      capabilities.insert(capabilities.end(), {given.statement, given.primitive, given.dtypes});
    }
    to.put(capabilities);
    to.put(out.row_alignment);
    to.put(out.row_padding_percent);
    to.put(out.row_padding_from);
    const auto numbers = abi::read(out.numbers);
    for (const auto& number : runtime::number_table) to.put(numbers.*number.stated);
    for (const auto& choice : runtime::choice_table) to.put(numbers.*choice.stated);
    return {};
  }

  Result<void> close_target(Decoder& from) {
    const auto number = from.get<uint64_t>();
    const auto found = targets_.find(number);
    if (found == targets_.end()) return malformed();
    // Erased before the call: the target counts as closed even if closing it fails.
    const OpenTarget open = found->second;
    targets_.erase(found);
    if (!open.provider->close_target) return {};
    abi::Call call;
    auto out = abi::sized<fe_none>();
    return call.check(open.provider->close_target(open.provider->self, call.get(), &open.target, &out),
                      "FE-P21", "the target could not be closed");
  }

  Result<void> propose(Decoder& from, Encoder& to) {
    FE_TRY(const auto* const open, target(from));
    const auto kernel = from.bytes();
    if (!from.done()) return malformed();
    struct Collected {
      Encoder candidates;
      uint64_t count = 0;
    } collected;
    auto args = abi::sized<fe_propose_args>();
    args.target = open->target.target;
    args.kernel = {kernel.data(), kernel.size(), 1};
    auto out = abi::sized<fe_propose_out>();
    out.host = &collected;
    out.add = [](void* host, const fe_candidate* given) -> int32_t {
      if (!given) return FE_EINVALID;
      auto& [to, count] = *static_cast<Collected*>(host);
      const fe_candidate candidate = abi::read(given);
      ++count;
      to.put(candidate.id);
      to.put(abi::view(candidate.name));
      to.put(candidate.cost);
      to.put(candidate.workspace_bytes);
      to.put(candidate.covered);
      to.put(candidate.flags);
      to.put(uint64_t{candidate.operand_layouts.count});
      for (uint64_t k = 0; k < candidate.operand_layouts.count; ++k) {
        const auto layout = abi::element<fe_operand_layout>(candidate.operand_layouts, k);
        to.put(layout.buffer);
        to.put(std::vector<int64_t>(layout.packed_dims, layout.packed_dims + layout.packed_rank));
        to.put(std::as_bytes(std::span(layout.exprs, layout.expr_count)));
        to.put(std::vector<uint32_t>(layout.unpack, layout.unpack + layout.logical_rank));
        to.put(layout.term_count);
        to.put(layout.factor_dim);
        to.put(select::copy_layout(layout).factors);
      }
      return FE_OK;
    };
    const fe_provider& table = *open->provider;
    if (!table.propose) return malformed();
    abi::Call call;
    FE_CHECK(call.check(table.propose(table.self, call.get(), &args, &out), "FE-K20",
                        "the provider proposes nothing for this kernel"));
    to.put(collected.count);
    to.put(collected.candidates.bytes());
    return {};
  }

  Result<void> compile(Decoder& from, Encoder& to) {
    FE_TRY(const auto* const open, target(from));
    const auto kernel = from.bytes();
    auto args = abi::sized<fe_compile_args>();
    args.target = open->target.target;
    args.kernel = {kernel.data(), kernel.size(), 1};
    args.candidate = from.get<uint64_t>();
    args.entry = abi::string(from.text());
    const auto config = from.bytes();
    args.config = {config.data(), config.size(), 1};
    args.provenance = abi::string(from.text());
    const bool listed = from.get<uint8_t>() != 0;
    const fe_provider& table = *open->provider;
    if (!from.done() || !table.compile) return malformed();
    abi::Collector<> blob, listing;
    auto out = abi::sized<fe_compile_out>();
    out.blob = blob.sink();
    if (listed) out.listing = listing.sink();
    abi::Call call;
    FE_CHECK(call.check(table.compile(table.self, call.get(), &args, &out), "FE-K22",
                        "the kernel could not be compiled"));
    to.put(blob.bytes());
    to.put(listing.bytes());
    for (const int64_t number :
         {out.tasks, out.grain, out.workspace_bytes, out.registers, out.spills, out.shared_bytes})
      to.put(number);
    return {};
  }

  Result<void> claim(Decoder& from, Encoder& to) {
    FE_TRY(const auto* const open, target(from));
    const auto graph = from.bytes();
    const auto table = abi::read(open->provider);
    if (!from.done() || !table.claim) return malformed();
    struct Collected {
      Encoder claims;
      uint64_t count = 0;
    } collected;
    auto args = abi::sized<fe_claim_args>();
    args.target = open->target.target;
    args.graph = {graph.data(), graph.size(), 1};
    auto out = abi::sized<fe_claim_out>();
    out.host = &collected;
    out.add = [](void* host, const fe_claim* given) -> int32_t {
      if (!given) return FE_EINVALID;
      auto& [to, count] = *static_cast<Collected*>(host);
      const fe_claim claim = abi::read(given);
      if (!abi::readable<uint32_t>(claim.nodes) || !abi::readable<fe_claim_layout>(claim.layouts))
        return FE_EINVALID;
      ++count;
      to.put(claim.id);
      to.put(abi::view(claim.name));
      to.put(claim.cost);
      std::vector<uint32_t> nodes;
      for (uint64_t k = 0; k < claim.nodes.count; ++k)
        nodes.push_back(abi::element<uint32_t>(claim.nodes, k));
      to.put(nodes);
      to.put(uint64_t{claim.layouts.count});
      for (uint64_t k = 0; k < claim.layouts.count; ++k) {
        const auto layout = abi::element<fe_claim_layout>(claim.layouts, k);
        to.put(layout.value);
        to.put(abi::view(layout.layout));
        to.put(layout.bytes);
      }
      return FE_OK;
    };
    abi::Call call;
    FE_CHECK(call.check(table.claim(table.self, call.get(), &args, &out), "FE-S23",
                        "the provider could not claim anything"));
    to.put(collected.count);
    to.put(collected.claims.bytes());
    return {};
  }

  Result<void> fingerprint(Decoder& from, Encoder& to) const {
    FE_TRY(const auto* const table, provider(from));
    if (!from.done() || !table->fingerprint) return malformed();
    abi::Collector<> text;
    auto sink = text.sink();
    auto args = abi::sized<fe_none>();
    abi::Call call;
    FE_CHECK(call.check(table->fingerprint(table->self, call.get(), &args, &sink), "FE-P21",
                        "it has no fingerprint"));
    to.put(text.bytes());
    return {};
  }

  std::unique_ptr<fe_host> host_;
  std::unique_ptr<plugin::Registry> registry_;
  const plugin::LoadedPlugin* plugin_ = nullptr;
  std::unique_ptr<HeldGraph> held_;
  std::map<uint64_t, OpenTarget> targets_;
  uint64_t last_target_ = 0;
  bool finished_ = false;
};

/// Ends this process when the other side closes its socket or ends, even while a plugin computes forever.
void watch_connection(int control) {
  for (;;) {
    pollfd waiting{control, POLLRDHUP, 0};
    if (::poll(&waiting, 1, -1) > 0) ::_exit(0);
  }
}

}  // namespace

int serve() {
  const int control = static_cast<int>(Descriptor::control);
  sockaddr address{};
  socklen_t length = sizeof address;
  if (::getpeername(control, &address, &length) != 0 || address.sa_family != AF_UNIX) {
    std::fputs("this program runs plugins with isolation = \"process\"; Ferrite starts it itself\n", stderr);
    return 2;
  }
  // A thread of its own, because the main thread may be inside a plugin.
  std::thread(watch_connection, control).detach();
  Server server;
  while (!server.finished()) {
    ControlMessage message;
    const ssize_t count = ::recv(control, &message, sizeof message, 0);
    if (count < 0 && errno == EINTR) continue;
    Bytes request;
    if (count != sizeof message ||
        !read_shared(static_cast<int>(Descriptor::request), message.bytes, request))
      ::_exit(1);
    const Bytes reply = server.answer(request);
    message.bytes = reply.size();
    if (!write_at(static_cast<int>(Descriptor::reply), reply) ||
        ::send(control, &message, sizeof message, MSG_NOSIGNAL) != sizeof message)
      ::_exit(1);
  }
  // Destructors and exit handlers of plugins are skipped.
  ::_exit(0);
}

}  // namespace ferrite::core::isolate
