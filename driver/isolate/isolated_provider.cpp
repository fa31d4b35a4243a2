// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Providers of an isolated plugin: kernels are sent to the child, candidates and blobs come back.
#include <algorithm>

#include "core/support/abi/abi.h"
#include "driver/isolate/isolated_plugin.h"
#include "runtime/target/number_table.h"

namespace ferrite::core::isolate {
namespace {

constexpr size_t most_dims = 64;  // of an operand, stored or logical

std::span<const std::byte> bytes_of(const fe_array& array) {
  return {static_cast<const std::byte*>(array.data), array.count};
}

std::string name_of(std::string_view function, const std::string& provider) {
  return fmt::format("{} of provider '{}'", function, provider);
}

/// A candidate and the memory to which its table points.
struct Candidate {
  struct Layout {
    std::vector<int64_t> dims;
    std::vector<fe_flat_expr> exprs;
    std::vector<uint32_t> unpack;
    std::vector<double> factors;
  };
  std::string name;
  std::deque<Layout> layouts;
  std::vector<fe_operand_layout> tables;
  fe_candidate table{};
};

Candidate read_candidate(Decoder& from) {
  Candidate result;
  auto& table = result.table = abi::sized<fe_candidate>();
  table.id = from.get<uint64_t>();
  result.name = from.text();
  table.cost = from.get<double>();
  table.workspace_bytes = from.get<int64_t>();
  table.covered = from.get<uint32_t>();
  table.flags = from.get<uint32_t>();
  for (uint64_t left = from.count(); left > 0 && from.ok(); --left) {
    auto& layout = result.layouts.emplace_back();
    auto& to = result.tables.emplace_back(abi::sized<fe_operand_layout>());
    to.buffer = from.get<uint32_t>();
    layout.dims = from.list<int64_t>();
    const auto exprs = from.bytes();
    layout.exprs.resize(exprs.size() / sizeof(fe_flat_expr));
    if (!layout.exprs.empty())
      std::memcpy(layout.exprs.data(), exprs.data(), layout.exprs.size() * sizeof(fe_flat_expr));
    layout.unpack = from.list<uint32_t>();
    to.term_count = from.get<uint32_t>();
    to.factor_dim = from.get<uint32_t>();
    layout.factors = from.list<double>();
    to.factors = abi::array(layout.factors);
    to.packed_rank = static_cast<uint32_t>(layout.dims.size());
    to.packed_dims = layout.dims.data();
    to.exprs = layout.exprs.data();
    to.expr_count = layout.exprs.size();
    to.unpack = layout.unpack.data();
    to.logical_rank = static_cast<uint32_t>(layout.unpack.size());
  }
  return result;
}

/// Whether the sizes in a candidate are possible. Whether they suit its kernel is checked where the candidate
/// is chosen.
bool plausible(const Candidate& candidate) {
  return candidate.table.workspace_bytes >= 0 &&
         std::all_of(candidate.layouts.begin(), candidate.layouts.end(), [](const auto& layout) {
           return layout.dims.size() <= most_dims && layout.unpack.size() <= most_dims;
         });
}

}  // namespace

/// The target in the current child.
Result<Plugin::Target*> Plugin::reopen(ProviderTable& provider, void* handle) {
  FE_CHECK(ensure_running());
  auto* target = static_cast<Target*>(handle);
  if (target->start == starts_) return target;
  auto out = abi::sized<fe_open_target_out>();
  FE_CHECK(open_in_child(provider, *target, out));
  return target;
}

Result<void> Plugin::open_in_child(ProviderTable& provider, Target& target, fe_open_target_out& out) {
  const std::string callback = name_of("open_target", provider.id);
  Encoder request;
  request.put(Request::open_target);
  request.put(provider.index);
  request.put(target.description);
  FE_TRY(const Bytes reply, ask(callback, request));
  Decoder from(reply);
  static_cast<void>(get_status(from));
  target.number = from.get<uint64_t>();
  target.start = starts_;
  target.name = from.text();
  out.target = &target;
  out.name = abi::string(std::string_view(target.name));
  out.vector_bytes = from.get<uint32_t>();
  out.buffer_alignment = from.get<uint32_t>();
  out.local_bytes = from.get<int64_t>();
  out.statement_kinds = from.get<uint64_t>();
  const auto capabilities = from.list<uint64_t>();
  target.capabilities.clear();
  for (size_t k = 0; k + 3 <= capabilities.size(); k += 3)
    target.capabilities.push_back({static_cast<uint32_t>(capabilities[k]),
                                   static_cast<uint32_t>(capabilities[k + 1]), capabilities[k + 2]});
  out.capabilities = abi::array(target.capabilities);
  out.row_alignment = from.get<uint32_t>();
  out.row_padding_percent = from.get<uint32_t>();
  out.row_padding_from = from.get<int64_t>();
  target.numbers = abi::sized<fe_target_numbers>();
  for (const auto& number : runtime::number_table) target.numbers.*number.stated = from.get<int64_t>();
  for (const auto& choice : runtime::choice_table) target.numbers.*choice.stated = from.get<uint32_t>();
  out.numbers = &target.numbers;
  if (!from.done() || out.local_bytes < 0) return garbage(callback);
  return {};
}

Result<void> Plugin::open_target(ProviderTable& provider, const fe_open_target_args& args,
                                 fe_open_target_out& out) {
  FE_CHECK(ensure_running());
  auto target = std::make_unique<Target>();
  const auto description = bytes_of(args.description);
  target->description.assign(description.begin(), description.end());
  FE_CHECK(open_in_child(provider, *target, out));
  provider.targets.push_back(std::move(target));
  return {};
}

Result<void> Plugin::close_target(ProviderTable& provider, void* handle) {
  const auto found = std::find_if(provider.targets.begin(), provider.targets.end(),
                                  [&](const auto& target) { return target.get() == handle; });
  if (found == provider.targets.end()) return {};
  // Removed before the child is asked: the target counts as closed even if the child fails to close it.
  const auto target = std::move(*found);
  provider.targets.erase(found);
  // It ended with its child, or belongs to the parent of this process.
  if (!process_ || process_->is_inherited() || target->start != starts_) return {};
  Encoder request;
  request.put(Request::close_target);
  request.put(target->number);
  FE_TRY(const Bytes reply, ask(name_of("close_target", provider.id), request));
  static_cast<void>(reply);
  return {};
}

Result<void> Plugin::propose(ProviderTable& provider, const fe_propose_args& args,
                             const fe_propose_out& out) {
  const std::string callback = name_of("propose", provider.id);
  // A new child gives the target a new number, so reopen() comes before the number is used.
  FE_TRY(const Target* const target, reopen(provider, args.target));
  Encoder request;
  request.put(Request::propose);
  request.put(target->number);
  request.put(bytes_of(args.kernel));
  FE_TRY(const Bytes reply, ask(callback, request));
  Decoder head(reply);
  // ask() has checked the status; this only moves past it.
  static_cast<void>(get_status(head));
  const uint64_t count = head.get<uint64_t>();
  Decoder from(head.bytes());
  std::deque<Candidate> candidates;
  // The child may give any count, so the loop also ends with the bytes. The host gets no candidate of a
  // malformed reply.
  for (uint64_t k = 0; k < count && from.more(); ++k) candidates.push_back(read_candidate(from));
  if (!head.done() || !from.done() || candidates.size() != count ||
      !std::all_of(candidates.begin(), candidates.end(), plausible))
    return garbage(callback);
  for (Candidate& candidate : candidates) {
    // Only now: the characters of a short name moved together with its candidate.
    candidate.table.name = abi::string(std::string_view(candidate.name));
    candidate.table.operand_layouts = abi::array(candidate.tables);
    if (const int32_t status = out.add(out.host, &candidate.table); status != FE_OK)
      return blame(callback, error(status, "FE-P21", "the host refused a candidate"));
  }
  return {};
}

Result<void> Plugin::compile(ProviderTable& provider, const fe_compile_args& args, fe_compile_out& out) {
  const std::string callback = name_of("compile", provider.id);
  FE_TRY(const Target* const target, reopen(provider, args.target));
  Encoder request;
  request.put(Request::compile);
  request.put(target->number);
  request.put(bytes_of(args.kernel));
  request.put(args.candidate);
  request.put(abi::view(args.entry));
  request.put(bytes_of(args.config));
  request.put(abi::view(args.provenance));
  request.put(uint8_t{out.listing.write != nullptr});
  FE_TRY(const Bytes reply, ask(callback, request));
  Decoder from(reply);
  static_cast<void>(get_status(from));
  const auto blob = from.bytes(), listing = from.bytes();
  for (int64_t* number :
       {&out.tasks, &out.grain, &out.workspace_bytes, &out.registers, &out.spills, &out.shared_bytes})
    *number = from.get<int64_t>();
  // registers, spills and shared_bytes may be -1, for unknown.
  if (!from.done() || out.tasks < 0 || out.grain < 0 || out.workspace_bytes < 0) return garbage(callback);
  for (const auto& [sink, bytes] : {std::pair{&out.blob, blob}, {&out.listing, listing}})
    if (sink->write && !bytes.empty())
      if (const int32_t status = sink->write(sink->self, bytes.data(), bytes.size()); status != FE_OK)
        return blame(callback, error(status, "FE-P21", "the host refused output"));
  return {};
}

Result<void> Plugin::claim(ProviderTable& provider, const fe_claim_args& args, const fe_claim_out& out) {
  const std::string callback = name_of("claim", provider.id);
  FE_TRY(const Target* const target, reopen(provider, args.target));
  Encoder request;
  request.put(Request::claim);
  request.put(target->number);
  request.put(bytes_of(args.graph));
  FE_TRY(const Bytes reply, ask(callback, request));
  Decoder head(reply);
  static_cast<void>(get_status(head));
  const uint64_t count = head.get<uint64_t>();
  Decoder from(head.bytes());
  if (!head.done()) return garbage(callback);
  for (uint64_t k = 0; k < count; ++k) {
    auto claim = abi::sized<fe_claim>();
    claim.id = from.get<uint64_t>();
    const std::string name(from.text());
    claim.name = abi::string(std::string_view(name));
    claim.cost = from.get<double>();
    const auto nodes = from.list<uint32_t>();
    claim.nodes = abi::array(nodes);
    // A deque: the layouts point to the characters of the names, which must not move.
    std::deque<std::string> names;
    std::vector<fe_claim_layout> layouts;
    for (uint64_t left = from.count(); left > 0 && from.ok(); --left) {
      auto& layout = layouts.emplace_back();
      layout.value = from.get<uint32_t>();
      layout.layout = abi::string(std::string_view(names.emplace_back(from.text())));
      layout.bytes = from.get<int64_t>();
    }
    claim.layouts = abi::array(layouts);
    if (!from.ok()) return garbage(callback);
    if (const int32_t status = out.add(out.host, &claim); status != FE_OK)
      return blame(callback, error(status, "FE-P21", "the host refused a claim"));
  }
  return from.done() ? Result<void>() : Result<void>(garbage(callback));
}

Result<void> Plugin::fingerprint(ProviderTable& provider, const fe_sink& out) {
  const std::string callback = name_of("fingerprint", provider.id);
  FE_CHECK(ensure_running());
  Encoder request;
  request.put(Request::fingerprint);
  request.put(provider.index);
  FE_TRY(const Bytes reply, ask(callback, request));
  Decoder from(reply);
  static_cast<void>(get_status(from));
  const auto text = from.bytes();
  if (!from.done()) return garbage(callback);
  if (const int32_t status = out.write(out.self, text.data(), text.size()); status != FE_OK)
    return blame(callback, error(status, "FE-P21", "the host refused output"));
  return {};
}

fe_provider Plugin::provider_table(ProviderTable& entry) {
  // The lock lets any thread use the table, although the child serves one call at a time. No exception may
  // cross the table.
  static const auto with = [](void* self, fe_call* call, auto function) noexcept -> int32_t {
    auto& provider = *static_cast<ProviderTable*>(self);
    try {
      std::lock_guard lock(provider.plugin->mutex_);
      Result<void> done = function(*provider.plugin, provider);
      return done ? FE_OK : abi::report(call, done.error());
    } catch (const std::bad_alloc&) {
      return abi::report(call, error(FE_ENOMEM, "FE-P22", "out of memory"));
    }
  };
  auto table = abi::sized<fe_provider>();
  table.thread_model = FE_THREADS_ANY;
  // `entry` is in a deque and stays in place. Slots that the child's provider lacks are removed by
  // read_description().
  table.self = &entry;
  table.id = abi::string(std::string_view(entry.id));
  table.device_kind = abi::string(std::string_view(entry.device_kind));
  table.open_target = [](void* self, fe_call* call, const fe_open_target_args* args,
                         fe_open_target_out* out) -> int32_t {
    return with(self, call, [&](Plugin& plugin, ProviderTable& provider) {
      return plugin.open_target(provider, *args, *out);
    });
  };
  table.close_target = [](void* self, fe_call* call, const fe_open_target_out* args, fe_none*) -> int32_t {
    return with(self, call, [&](Plugin& plugin, ProviderTable& provider) {
      return plugin.close_target(provider, args->target);
    });
  };
  table.propose = [](void* self, fe_call* call, const fe_propose_args* args, fe_propose_out* out) -> int32_t {
    return with(self, call, [&](Plugin& plugin, ProviderTable& provider) {
      return plugin.propose(provider, *args, *out);
    });
  };
  table.compile = [](void* self, fe_call* call, const fe_compile_args* args, fe_compile_out* out) -> int32_t {
    return with(self, call, [&](Plugin& plugin, ProviderTable& provider) {
      return plugin.compile(provider, *args, *out);
    });
  };
  table.claim = [](void* self, fe_call* call, const fe_claim_args* args, fe_claim_out* out) -> int32_t {
    return with(self, call,
                [&](Plugin& plugin, ProviderTable& provider) { return plugin.claim(provider, *args, *out); });
  };
  table.fingerprint = [](void* self, fe_call* call, const fe_none*, fe_sink* out) -> int32_t {
    return with(self, call,
                [&](Plugin& plugin, ProviderTable& provider) { return plugin.fingerprint(provider, *out); });
  };
  return table;
}

}  // namespace ferrite::core::isolate
