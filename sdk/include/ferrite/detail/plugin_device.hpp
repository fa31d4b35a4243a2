// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The tables of contributions that compile and run kernels, or advise on that: providers, runtimes, fusion
// policies, cost models, metric sinks.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ferrite/detail/plugin_builder.hpp"

namespace ferrite::inline v0 {

namespace detail {
/// Copies launch needs to an fe_function_out or fe_exec_out.
template <class Out>
void put_needs(Out& out, const LaunchNeeds& needs) {
  out.tasks = needs.tasks;
  out.grain = needs.grain;
  out.workspace_bytes = needs.workspace_bytes;
  out.arguments = to_array(needs.arguments.data(), needs.arguments.size());
}
/// The Streams interface of a runtime's `self`; the class must have it.
inline Streams& streams_of(void* self) { return *dynamic_cast<Streams*>(static_cast<Runtime*>(self)); }
}  // namespace detail

inline void PluginBuilder::add(std::unique_ptr<Provider> provider) {
  auto& entry = providers_.emplace_back(ProviderTable{std::move(provider), {}, {}, {}});
  entry.id = entry.provider->id();
  entry.device = entry.provider->device_kind();
  auto& table = entry.table;
  table = sized<fe_provider>();
  table.rev = 2;
  table.thread_model = FE_THREADS_ANY;
  table.self = entry.provider.get();
  table.id = to_abi(entry.id);
  table.device_kind = to_abi(entry.device);
  table.max_flat_revision = FE_FLAT_REVISION;
  table.features = entry.provider->features();
  table.open_target = [](void* self, fe_call* call, const fe_open_target_args* args,
                         fe_open_target_out* out) -> int32_t {
    return detail::guarded(call, [&] {
      auto target = static_cast<Provider*>(self)->open_target(bytes_from(args->description));
      out->name = to_abi(target->name);
      out->vector_bytes = target->vector_bytes;
      out->buffer_alignment = target->buffer_alignment;
      out->local_bytes = target->local_bytes;
      out->statement_kinds = target->statement_kinds;
      out->capabilities = to_array(target->capabilities.data(), target->capabilities.size());
      out->row_alignment = target->row_alignment;
      out->row_padding_percent = target->row_padding_percent;
      out->row_padding_from = target->row_padding_from;
      out->numbers = &target->numbers;
      out->target = target.release();
    });
  };
  table.close_target = [](void*, fe_call* call, const fe_open_target_out* args, fe_none*) -> int32_t {
    return detail::guarded(call, [&] { delete static_cast<Target*>(args->target); });
  };
  table.propose = [](void* self, fe_call* call, const fe_propose_args* args, fe_propose_out* out) -> int32_t {
    return detail::guarded(call, [&] {
      for (const auto& c : static_cast<Provider*>(self)->propose(*static_cast<Target*>(args->target),
                                                                 bytes_from(args->kernel))) {
        std::vector<fe_operand_layout> layouts;
        for (const auto& layout : c.operand_layouts) {
          auto abi = sized<fe_operand_layout>();
          abi.buffer = layout.buffer;
          abi.packed_rank = static_cast<uint32_t>(layout.packed_dims.size());
          abi.packed_dims = layout.packed_dims.data();
          abi.exprs = layout.exprs.data();
          abi.expr_count = layout.exprs.size();
          abi.unpack = layout.unpack.data();
          abi.logical_rank = static_cast<uint32_t>(layout.unpack.size());
          abi.term_count = layout.terms;
          abi.factor_dim = layout.factor_dim;
          abi.factors = to_array(layout.factors.data(), layout.factors.size());
          layouts.push_back(abi);
        }
        auto abi = sized<fe_candidate>();
        abi.id = c.id;
        abi.name = to_abi(c.name);
        abi.cost = c.cost;
        abi.workspace_bytes = c.workspace_bytes;
        abi.operand_layouts = to_array(layouts.data(), layouts.size());
        abi.covered = c.covered;
        if (out->add(out->host, &abi) != FE_OK) fail("FE-P21", "the host refused a candidate");
      }
    });
  };
  table.compile = [](void* self, fe_call* call, const fe_compile_args* args, fe_compile_out* out) -> int32_t {
    return detail::guarded(call, [&] {
      CompileRequest request{bytes_from(args->kernel),   args->candidate,
                             from_abi(args->entry),      bytes_from(args->config),
                             from_abi(args->provenance), out->listing.write != nullptr};
      auto result = static_cast<Provider*>(self)->compile(*static_cast<Target*>(args->target), request);
      write(out->blob, result.blob);
      if (request.want_listing) write(out->listing, result.listing);
      out->tasks = result.tasks;
      out->grain = result.grain;
      out->workspace_bytes = result.workspace_bytes;
      out->registers = result.registers;
      out->spills = result.spills;
      out->shared_bytes = result.shared_bytes;
    });
  };
  table.fingerprint = [](void* self, fe_call* call, const fe_none*, fe_sink* sink) -> int32_t {
    return detail::guarded(call, [&] { write(*sink, static_cast<Provider*>(self)->fingerprint()); });
  };
  // The class of the provider decides which slots its table gets. Each slot casts to its own class.
  if (dynamic_cast<LibraryProvider*>(entry.provider.get())) add_exec(table);
  if (dynamic_cast<RegionProvider*>(entry.provider.get())) add_claim(table);
  contributions_.push_back({FE_CONTRIBUTION_PROVIDER, 0, &table});
}

inline void PluginBuilder::add_exec(fe_provider& table) {
  table.exec_create = [](void* self, fe_call* call, const fe_exec_args* args, fe_exec_out* out) -> int32_t {
    return detail::guarded(call, [&] {
      auto& library = *dynamic_cast<LibraryProvider*>(static_cast<Provider*>(self));
      const auto given = at_own_size(args);
      out->exec = library.exec_create(
          *static_cast<Target*>(given.target),
          {bytes_from(given.blob), from_abi(given.entry), given.device, given.native_context});
      detail::put_needs(*out, library.exec_needs(out->exec));
      if (out->size >= sizeof *out) out->flags = library.exec_recordable(out->exec) ? FE_EXEC_RECORDABLE : 0;
    });
  };
  table.exec_launch = [](void* self, fe_call* call, const fe_launch_args* args, fe_none*) -> int32_t {
    return detail::guarded(call, [&] {
      dynamic_cast<LibraryProvider*>(static_cast<Provider*>(self))->exec_launch(at_own_size(args));
    });
  };
  table.exec_destroy = [](void* self, fe_call* call, const fe_exec_out* args, fe_none*) -> int32_t {
    return detail::guarded(call, [&] {
      dynamic_cast<LibraryProvider*>(static_cast<Provider*>(self))->exec_destroy(args->exec);
    });
  };
}

inline void PluginBuilder::add_claim(fe_provider& table) {
  table.propose = nullptr;  // the provider only claims regions
  table.claim = [](void* self, fe_call* call, const fe_claim_args* args, fe_claim_out* out) -> int32_t {
    return detail::guarded(call, [&] {
      auto& provider = *dynamic_cast<RegionProvider*>(static_cast<Provider*>(self));
      for (const auto& c : provider.claim(*static_cast<Target*>(args->target), bytes_from(args->graph))) {
        std::vector<fe_claim_layout> layouts;
        for (const auto& layout : c.layouts)
          layouts.push_back({layout.value, 0, to_abi(layout.layout), layout.bytes});
        auto abi = sized<fe_claim>();
        abi.id = c.id;
        abi.name = to_abi(c.name);
        abi.nodes = to_array(c.nodes.data(), c.nodes.size());
        abi.cost = c.cost;
        abi.layouts = to_array(layouts.data(), layouts.size());
        if (out->add(out->host, &abi) != FE_OK) fail("FE-P21", "the host refused a claim");
      }
    });
  };
}

inline void PluginBuilder::add(std::unique_ptr<Runtime> runtime) {
  auto& entry = runtimes_.emplace_back(RuntimeTable{std::move(runtime), {}, {}});
  entry.id = entry.runtime->id();
  auto& table = entry.table;
  table = sized<fe_runtime>();
  table.rev = 5;
  table.thread_model = FE_THREADS_ANY;
  table.self = entry.runtime.get();
  table.id = to_abi(entry.id);
  table.device_count = [](void* self, fe_call* call, const fe_none*, fe_device_count_out* out) -> int32_t {
    return detail::guarded(call, [&] { out->count = static_cast<Runtime*>(self)->device_count(); });
  };
  table.describe = [](void* self, fe_call* call, const fe_device_args* args,
                      fe_describe_out* out) -> int32_t {
    return detail::guarded(call, [&] {
      auto description = static_cast<Runtime*>(self)->describe(args->device);
      write(out->description, description.description);
      write(out->name, description.name);
      out->dlpack_device = description.dlpack_device;
      out->host_memory = description.host_memory;
      out->alignment = description.alignment;
      out->capacity = description.capacity;
    });
  };
  table.alloc = [](void* self, fe_call* call, const fe_alloc_args* args, fe_alloc_out* out) -> int32_t {
    return detail::guarded(
        call, [&] { out->data = static_cast<Runtime*>(self)->alloc(args->device, args->bytes); });
  };
  table.free = [](void* self, fe_call* call, const fe_free_args* args, fe_none*) -> int32_t {
    return detail::guarded(call, [&] { static_cast<Runtime*>(self)->free(args->device, args->data); });
  };
  table.copy = [](void* self, fe_call* call, const fe_copy_args* args, fe_none*) -> int32_t {
    return detail::guarded(call, [&] { static_cast<Runtime*>(self)->copy(at_own_size(args)); });
  };
  table.module_load = [](void* self, fe_call* call, const fe_module_args* args,
                         fe_module_out* out) -> int32_t {
    return detail::guarded(call, [&] {
      std::vector<Bytes> blobs;
      for (size_t k = 0; k < args->blobs.count; ++k)
        blobs.push_back(bytes_from(element<fe_array>(args->blobs, k)));
      out->module = static_cast<Runtime*>(self)->module_load(args->device, blobs, from_abi(args->name));
    });
  };
  table.module_unload = [](void* self, fe_call* call, const fe_module_out* args, fe_none*) -> int32_t {
    return detail::guarded(call, [&] { static_cast<Runtime*>(self)->module_unload(args->module); });
  };
  table.function = [](void* self, fe_call* call, const fe_function_args* args,
                      fe_function_out* out) -> int32_t {
    return detail::guarded(call, [&] {
      auto& runtime = *static_cast<Runtime*>(self);
      out->function = runtime.function(args->module, from_abi(args->entry));
      detail::put_needs(*out, runtime.needs(args->module, from_abi(args->entry)));
      if (out->size < sizeof *out) return;
      const auto numbers = runtime.numbers(args->module, from_abi(args->entry));
      out->registers = numbers.registers;
      out->spills = numbers.spills;
      out->shared_bytes = numbers.shared_bytes;
    });
  };
  table.launch = [](void* self, fe_call* call, const fe_launch_args* args, fe_none*) -> int32_t {
    return detail::guarded(call, [&] { static_cast<Runtime*>(self)->launch(at_own_size(args)); });
  };
  table.accept = [](void* self, fe_call* call, const fe_accept_args* args, fe_none*) -> int32_t {
    return detail::guarded(call, [&] {
      const auto target = bytes_from(args->description);
      const auto reason = static_cast<Runtime*>(self)->refusal(
          args->device, {reinterpret_cast<const char*>(target.data()), target.size()});
      if (!reason.empty()) decline(reason);
    });
  };
  table.synchronise = [](void* self, fe_call* call, const fe_device_args* args, fe_none*) -> int32_t {
    return detail::guarded(call, [&] { static_cast<Runtime*>(self)->synchronise(args->device); });
  };
  table.device_status = [](void* self, fe_call* call, const fe_device_args* args,
                           fe_device_status_out* out) -> int32_t {
    return detail::guarded(call, [&] {
      const auto status = static_cast<Runtime*>(self)->status(args->device);
      out->status = status.status;
      write(out->text, status.text);
    });
  };
  if (dynamic_cast<Streams*>(entry.runtime.get())) add_streams(table);
  contributions_.push_back({FE_CONTRIBUTION_RUNTIME, 0, &table});
}

inline void PluginBuilder::add_streams(fe_runtime& table) {
  table.alloc = [](void* self, fe_call* call, const fe_alloc_args* args, fe_alloc_out* out) -> int32_t {
    return detail::guarded(call, [&] {
      const auto given = at_own_size(args);
      out->data = detail::streams_of(self).stream_alloc(given.device, given.bytes, given.stream);
    });
  };
  table.free = [](void* self, fe_call* call, const fe_free_args* args, fe_none*) -> int32_t {
    return detail::guarded(call, [&] {
      const auto given = at_own_size(args);
      detail::streams_of(self).stream_free(given.device, given.data, given.stream);
    });
  };
  table.synchronise = [](void* self, fe_call* call, const fe_device_args* args, fe_none*) -> int32_t {
    return detail::guarded(call, [&] {
      const auto given = at_own_size(args);
      detail::streams_of(self).stream_synchronise(given.device, given.stream);
    });
  };
  table.stream_open = [](void* self, fe_call* call, const fe_stream_args* args,
                         fe_stream_out* out) -> int32_t {
    return detail::guarded(
        call, [&] { out->stream = detail::streams_of(self).stream_open(args->device, args->native); });
  };
  table.stream_close = [](void* self, fe_call* call, const fe_device_args* args, fe_none*) -> int32_t {
    return detail::guarded(call, [&] { detail::streams_of(self).stream_close(args->device, args->stream); });
  };
  table.native_handle = [](void* self, fe_call* call, const fe_native_args* args,
                           fe_native_out* out) -> int32_t {
    return detail::guarded(call, [&] {
      out->handle = detail::streams_of(self).native_handle(args->device, args->stream, args->kind);
    });
  };
  table.record_begin = [](void* self, fe_call* call, const fe_device_args* args, fe_none*) -> int32_t {
    return detail::guarded(call, [&] { detail::streams_of(self).record_begin(args->device, args->stream); });
  };
  table.record_end = [](void* self, fe_call* call, const fe_device_args* args, fe_graph_out* out) -> int32_t {
    return detail::guarded(
        call, [&] { out->graph = detail::streams_of(self).record_end(args->device, args->stream); });
  };
  table.replay = [](void* self, fe_call* call, const fe_replay_args* args, fe_none*) -> int32_t {
    return detail::guarded(call, [&] {
      std::vector<fe_rebinding> rebindings;
      for (size_t k = 0; k < args->rebindings.count; ++k)
        rebindings.push_back(element<fe_rebinding>(args->rebindings, k));
      detail::streams_of(self).replay(args->graph, args->stream, rebindings);
    });
  };
  table.graph_free = [](void* self, fe_call* call, const fe_graph_out* args, fe_none*) -> int32_t {
    return detail::guarded(call, [&] { detail::streams_of(self).graph_free(args->graph); });
  };
  table.host_alloc = [](void* self, fe_call* call, const fe_alloc_args* args, fe_alloc_out* out) -> int32_t {
    return detail::guarded(
        call, [&] { out->data = detail::streams_of(self).host_alloc(args->device, args->bytes); });
  };
  table.host_free = [](void* self, fe_call* call, const fe_free_args* args, fe_none*) -> int32_t {
    return detail::guarded(call, [&] { detail::streams_of(self).host_free(args->device, args->data); });
  };
  table.event_open = [](void* self, fe_call* call, const fe_device_args* args, fe_event_out* out) -> int32_t {
    return detail::guarded(call, [&] { out->event = detail::streams_of(self).event_open(args->device); });
  };
  table.event_record = [](void* self, fe_call* call, const fe_event_args* args, fe_none*) -> int32_t {
    return detail::guarded(
        call, [&] { detail::streams_of(self).event_record(args->device, args->stream, args->event); });
  };
  table.event_wait = [](void* self, fe_call* call, const fe_event_args* args, fe_none*) -> int32_t {
    return detail::guarded(
        call, [&] { detail::streams_of(self).event_wait(args->device, args->stream, args->event); });
  };
  table.event_close = [](void* self, fe_call* call, const fe_event_args* args, fe_none*) -> int32_t {
    return detail::guarded(call, [&] { detail::streams_of(self).event_close(args->device, args->event); });
  };
}

inline void PluginBuilder::add(std::unique_ptr<FusionPolicy> policy) {
  auto& entry = policies_.emplace_back(PolicyTable{std::move(policy), {}, {}});
  entry.id = entry.policy->id();
  auto& table = entry.table;
  table = sized<fe_fusion_policy>();
  table.rev = 1;
  table.thread_model = FE_THREADS_ANY;
  table.self = entry.policy.get();
  table.id = to_abi(entry.id);
  table.rank = [](void* self, fe_call* call, const fe_fusion_rank_args* args,
                  fe_fusion_rank_out* out) -> int32_t {
    return detail::guarded(call, [&] {
      std::vector<FusionPair> pairs;
      for (uint64_t k = 0; k < args->pairs.count; ++k)
        pairs.emplace_back(element<fe_fusion_pair>(args->pairs, k), *args->loops);
      const auto scores = static_cast<FusionPolicy*>(self)->rank(pairs);
      if (scores.empty()) decline("it leaves the order as it is");
      if (scores.size() != out->count)
        fail("FE-P81", "the policy gave ", scores.size(), " scores for ", out->count, " pairs");
      for (size_t k = 0; k < scores.size(); ++k) out->scores[k] = scores[k];
    });
  };
  table.decide = [](void* self, fe_call* call, const fe_fusion_decide_args* args,
                    fe_fusion_decide_out* out) -> int32_t {
    return detail::guarded(call, [&] {
      const FusionPair pair(*args->pair, *args->loops);
      out->decision = static_cast<uint32_t>(static_cast<FusionPolicy*>(self)->decide(pair));
    });
  };
  contributions_.push_back({FE_CONTRIBUTION_FUSION_POLICY, 0, &table});
}

inline void PluginBuilder::add(std::unique_ptr<CostModel> model) {
  auto& entry = costs_.emplace_back(CostTable{std::move(model), {}, {}, {}});
  entry.id = entry.model->id();
  entry.device = entry.model->device();
  auto& table = entry.table;
  table = sized<fe_cost_model>();
  table.rev = 1;
  table.thread_model = FE_THREADS_ANY;
  table.self = entry.model.get();
  table.id = to_abi(entry.id);
  table.device = to_abi(entry.device);
  table.estimate = [](void* self, fe_call* call, const fe_cost_args* args, fe_cost_out* out) -> int32_t {
    return detail::guarded(call, [&] {
      const auto cost = static_cast<CostModel*>(self)->estimate(from_abi(args->device),
                                                                bytes_from(args->kernel), *args->numbers);
      if (!cost) decline("the model does not know this kernel");
      out->seconds = cost->seconds;
      out->operations = cost->operations;
      out->bytes = cost->bytes;
    });
  };
  contributions_.push_back({FE_CONTRIBUTION_COST_MODEL, 0, &table});
}

inline void PluginBuilder::add(std::unique_ptr<MetricSink> sink) {
  auto& entry = sinks_.emplace_back(SinkTable{std::move(sink), {}, {}, {}, {}});
  entry.id = entry.sink->id();
  entry.tables = entry.sink->tables();
  for (const auto& name : entry.tables) entry.abi_tables.push_back(to_abi(name));
  auto& table = entry.table;
  table = sized<fe_metric_sink>();
  table.rev = 1;
  table.thread_model = FE_THREADS_SERIALISED;
  table.self = entry.sink.get();
  table.id = to_abi(entry.id);
  table.tables = to_array(entry.abi_tables.data(), entry.abi_tables.size());
  table.write = [](void* self, fe_call* call, const fe_metric_args* args, fe_none*) -> int32_t {
    return detail::guarded(call, [&] { static_cast<MetricSink*>(self)->write(MetricRows(*args)); });
  };
  contributions_.push_back({FE_CONTRIBUTION_METRIC_SINK, 0, &table});
}

}  // namespace ferrite::inline v0
