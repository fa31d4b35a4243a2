// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// FERRITE_PLUGIN: one line lists what a plugin contributes.
//   FERRITE_PLUGIN("acme.fuse", "1.2.0", op_def(...)..., rules("post_grad_pre", mul_add), pass("pre_grad", "acme.x", fn))
// A plugin with many parts, or with providers, passes a function `void(PluginBuilder&, const PluginContext&)` instead.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "ferrite/advice.hpp"
#include "ferrite/op.hpp"
#include "ferrite/provider.hpp"
#include "ferrite/rule.hpp"

namespace ferrite::inline v0 {

/// Owns the tables of one plugin instance; everything added lives until destroy.
class PluginBuilder {
 public:
  void add(OpDef def);
  void add(LoweringDef def);
  void add(DecompositionDef def);
  void add(PassDef def);
  void add(RuleSet set);
  void add(std::unique_ptr<Provider> provider);
  void add(std::unique_ptr<Runtime> runtime);
  void add(std::unique_ptr<Importer> importer);
  void add(std::unique_ptr<FusionPolicy> policy);
  void add(std::unique_ptr<CostModel> model);
  void add(std::unique_ptr<MetricSink> sink);
  const std::vector<fe_contribution>& contributions() const { return contributions_; }

 private:
  struct OpTable {
    OpDef def;
    fe_op_def table{};
    std::vector<fe_operand_def> operands;
    std::vector<fe_attr_def> attrs;
    std::deque<std::vector<fe_string>> strings;
  };
  struct LoweringTable {
    LoweringDef def;
    fe_lowering table{};
  };
  struct DecompositionTable {
    DecompositionDef def;
    fe_decomposition table{};
  };
  struct PassTable {
    PassDef def;
    fe_pass table{};
    std::vector<fe_string> after, before;
  };
  struct PredicateTable {
    Rule::Predicate function;
    std::string name;
  };
  struct RulesTable {
    RuleSet set;
    fe_rule_set table{};
    std::deque<PredicateTable> functions;
    std::vector<fe_predicate> predicates;
  };
  struct ProviderTable {
    std::unique_ptr<Provider> provider;
    std::string id, device;
    fe_provider table{};
  };
  struct RuntimeTable {
    std::unique_ptr<Runtime> runtime;
    std::string id;
    fe_runtime table{};
  };
  struct OpenModel {
    std::unique_ptr<Model> model;
    std::vector<Port> inputs, outputs;
    std::vector<fe_port> abi_inputs, abi_outputs;
    std::deque<std::vector<fe_string>> names;
  };
  struct ImporterTable {
    std::unique_ptr<Importer> importer;
    std::string id, extensions;
    fe_importer table{};
  };
  struct PolicyTable {
    std::unique_ptr<FusionPolicy> policy;
    std::string id;
    fe_fusion_policy table{};
  };
  struct CostTable {
    std::unique_ptr<CostModel> model;
    std::string id, device;
    fe_cost_model table{};
  };
  struct SinkTable {
    std::unique_ptr<MetricSink> sink;
    std::string id;
    std::vector<std::string> tables;
    std::vector<fe_string> abi_tables;
    fe_metric_sink table{};
  };

  static int32_t run_lowering(fe_call* call, const LowerFunction& function, const fe_lowering_args* args) {
    return detail::guarded(call, [&] {
      Lowering lowering(args->lower, *args->op);
      function(lowering);
    });
  }

  static int32_t run_decomposition(fe_call* call, const DecomposeFunction& function,
                                   const fe_decompose_args* args, fe_decompose_out* out) {
    return detail::guarded(call, [&] {
      Graph graph(args->graph);
      graph.set_insertion(Node(&graph, args->node));
      Instance instance(*args->op);
      std::vector<Value> operands;
      for (size_t k = 0; k < instance.operand_count(); ++k)
        operands.emplace_back(&graph, instance.operand_view(k).handle);
      auto results = function(graph, instance, operands);
      if (results.size() != out->capacity)
        fail("FE-P25", "a decomposition gave ", results.size(), " results");
      for (size_t k = 0; k < results.size(); ++k) out->results[k] = results[k].handle();
    });
  }

  std::deque<OpTable> ops_;
  std::deque<LoweringTable> lowerings_;
  std::deque<DecompositionTable> decompositions_;
  std::deque<PassTable> passes_;
  std::deque<RulesTable> rules_;
  std::deque<ProviderTable> providers_;
  std::deque<RuntimeTable> runtimes_;
  std::deque<ImporterTable> importers_;
  std::deque<PolicyTable> policies_;
  std::deque<CostTable> costs_;
  std::deque<SinkTable> sinks_;
  static void add_exec(fe_provider& table);
  static void add_claim(fe_provider& table);

  std::vector<fe_contribution> contributions_;
};

inline void PluginBuilder::add(OpDef def) {
  auto& op = ops_.emplace_back(OpTable{std::move(def), {}, {}, {}, {}});
  for (const auto& operand : op.def.operands_) {
    auto entry = sized<fe_operand_def>();
    entry.name = to_abi(operand.name);
    entry.flags = operand.flags;
    op.operands.push_back(entry);
  }
  for (const auto& attribute : op.def.attrs_) {
    auto entry = sized<fe_attr_def>();
    entry.value = attribute.value.abi(op.strings.emplace_back());
    entry.required = attribute.required;
    entry.doc = to_abi(attribute.doc);
    op.attrs.push_back(entry);
  }
  auto& table = op.table;
  table = sized<fe_op_def>();
  table.rev = 1;
  table.flags = op.def.flags_;
  table.self = &op;
  table.name = to_abi(op.def.name_);
  table.doc = to_abi(op.def.doc_);
  table.operands = to_array(op.operands.data(), op.operands.size());
  table.attrs = to_array(op.attrs.data(), op.attrs.size());
  table.results = op.def.results_;
  table.infer = [](void* self, fe_call* call, const fe_infer_args* args, fe_infer_out* out) -> int32_t {
    return detail::guarded(call, [&] {
      const auto& infer = static_cast<OpTable*>(self)->def.infer_;
      if (!infer) fail("FE-P24", "op '", static_cast<OpTable*>(self)->def.name_, "' has no type rule");
      for (const auto& type : infer(Instance(*args->op))) {
        auto abi = type.abi();
        if (out->add(out->host, &abi) != FE_OK) fail("FE-P21", "the host refused a result type");
      }
    });
  };
  if (op.def.decompose_)
    table.decompose = [](void* self, fe_call* call, const fe_decompose_args* args,
                         fe_decompose_out* out) -> int32_t {
      return run_decomposition(call, static_cast<OpTable*>(self)->def.decompose_, args, out);
    };
  if (op.def.lower_)
    table.lower = [](void* self, fe_call* call, const fe_lowering_args* args, fe_none*) -> int32_t {
      return run_lowering(call, static_cast<OpTable*>(self)->def.lower_, args);
    };
  table.samples = [](void* self, fe_call* call, const fe_none*, fe_sink* sink) -> int32_t {
    return detail::guarded(call, [&] {
      bool first = true;
      for (const auto& text : static_cast<OpTable*>(self)->def.samples_) {
        if (!std::exchange(first, false)) write(*sink, "---\n");
        write(*sink, text);
      }
    });
  };
  contributions_.push_back({FE_CONTRIBUTION_OP, 0, &table});
}

inline void PluginBuilder::add(LoweringDef def) {
  auto& entry = lowerings_.emplace_back(LoweringTable{std::move(def), {}});
  entry.table = sized<fe_lowering>();
  entry.table.rev = 1;
  entry.table.self = &entry;
  entry.table.op = to_abi(entry.def.op);
  entry.table.device = to_abi(entry.def.device);
  entry.table.lower = [](void* self, fe_call* call, const fe_lowering_args* args, fe_none*) -> int32_t {
    return run_lowering(call, static_cast<LoweringTable*>(self)->def.lower, args);
  };
  contributions_.push_back({FE_CONTRIBUTION_LOWERING, 0, &entry.table});
}

inline void PluginBuilder::add(DecompositionDef def) {
  auto& entry = decompositions_.emplace_back(DecompositionTable{std::move(def), {}});
  entry.table = sized<fe_decomposition>();
  entry.table.rev = 1;
  entry.table.self = &entry;
  entry.table.op = to_abi(entry.def.op);
  entry.table.decompose = [](void* self, fe_call* call, const fe_decompose_args* args,
                             fe_decompose_out* out) -> int32_t {
    return run_decomposition(call, static_cast<DecompositionTable*>(self)->def.decompose, args, out);
  };
  contributions_.push_back({FE_CONTRIBUTION_DECOMPOSITION, 0, &entry.table});
}

inline void PluginBuilder::add(PassDef def) {
  auto& entry = passes_.emplace_back(PassTable{std::move(def), {}, {}, {}});
  for (const auto& name : entry.def.after) entry.after.push_back(to_abi(name));
  for (const auto& name : entry.def.before) entry.before.push_back(to_abi(name));
  auto& table = entry.table;
  table = sized<fe_pass>();
  table.rev = 1;
  table.self = &entry;
  table.name = to_abi(entry.def.name);
  table.phase = to_abi(entry.def.phase);
  table.after = to_array(entry.after.data(), entry.after.size());
  table.before = to_array(entry.before.data(), entry.before.size());
  table.run = [](void* self, fe_call* call, const fe_pass_args* args, fe_pass_out* out) -> int32_t {
    return detail::guarded(call,
                           [&] { out->changed = static_cast<PassTable*>(self)->def.run(*args) ? 1 : 0; });
  };
  contributions_.push_back({FE_CONTRIBUTION_PASS, 0, &table});
}

inline void PluginBuilder::add(RuleSet set) {
  auto& entry = rules_.emplace_back(RulesTable{std::move(set), {}, {}, {}});
  for (const auto& rule : entry.set.rules) {
    entry.set.text += rule.text(entry.set.phase);
    for (size_t k = 0; k < rule.predicates().size(); ++k)
      entry.functions.push_back({rule.predicates()[k], rule.predicate_name(k)});
  }
  for (auto& function : entry.functions) {
    auto predicate = sized<fe_predicate>();
    predicate.self = &function;
    predicate.name = to_abi(function.name);
    predicate.accept = [](void* self, fe_call* call, const fe_match_args* args,
                          fe_predicate_out* out) -> int32_t {
      return detail::guarded(call, [&] {
        Graph graph(args->graph);
        out->accepted = static_cast<PredicateTable*>(self)->function(Match(graph, *args)) ? 1 : 0;
      });
    };
    entry.predicates.push_back(predicate);
  }
  entry.table = sized<fe_rule_set>();
  entry.table.rev = 1;
  entry.table.text = to_abi(entry.set.text);
  entry.table.file = to_abi(entry.set.file);
  entry.table.predicates = to_array(entry.predicates.data(), entry.predicates.size());
  contributions_.push_back({FE_CONTRIBUTION_RULES, 0, &entry.table});
}

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
  // Which kinds of provider it is decides which slots it has; each slot knows its own class.
  if (dynamic_cast<LibraryProvider*>(entry.provider.get())) add_exec(table);
  if (dynamic_cast<RegionProvider*>(entry.provider.get())) add_claim(table);
  contributions_.push_back({FE_CONTRIBUTION_PROVIDER, 0, &table});
}

inline void PluginBuilder::add_exec(fe_provider& table) {
  table.exec_create = [](void* self, fe_call* call, const fe_exec_args* args, fe_exec_out* out) -> int32_t {
    return detail::guarded(call, [&] {
      out->exec = dynamic_cast<LibraryProvider*>(static_cast<Provider*>(self))
                      ->exec_create(*static_cast<Target*>(args->target), bytes_from(args->blob),
                                    from_abi(args->entry));
    });
  };
  table.exec_launch = [](void* self, fe_call* call, const fe_launch_args* args, fe_none*) -> int32_t {
    return detail::guarded(
        call, [&] { dynamic_cast<LibraryProvider*>(static_cast<Provider*>(self))->exec_launch(*args); });
  };
  table.exec_destroy = [](void* self, fe_call* call, const fe_exec_out* args, fe_none*) -> int32_t {
    return detail::guarded(call, [&] {
      dynamic_cast<LibraryProvider*>(static_cast<Provider*>(self))->exec_destroy(args->exec);
    });
  };
}

inline void PluginBuilder::add_claim(fe_provider& table) {
  table.propose = nullptr;  // regions only
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
  table.rev = 2;
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
    return detail::guarded(call, [&] { static_cast<Runtime*>(self)->copy(*args); });
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
      out->function = static_cast<Runtime*>(self)->function(args->module, from_abi(args->entry));
    });
  };
  table.launch = [](void* self, fe_call* call, const fe_launch_args* args, fe_none*) -> int32_t {
    return detail::guarded(call, [&] { static_cast<Runtime*>(self)->launch(*args); });
  };
  table.accept = [](void* self, fe_call* call, const fe_accept_args* args, fe_none*) -> int32_t {
    return detail::guarded(call, [&] {
      const auto target = bytes_from(args->description);
      const auto reason = static_cast<Runtime*>(self)->refusal(
          args->device, {reinterpret_cast<const char*>(target.data()), target.size()});
      if (!reason.empty()) decline(reason);
    });
  };
  contributions_.push_back({FE_CONTRIBUTION_RUNTIME, 0, &table});
}

inline void PluginBuilder::add(std::unique_ptr<Importer> importer) {
  auto& entry = importers_.emplace_back(ImporterTable{std::move(importer), {}, {}, {}});
  entry.id = entry.importer->id();
  entry.extensions = entry.importer->extensions();
  auto& table = entry.table;
  table = sized<fe_importer>();
  table.rev = 1;
  table.thread_model = FE_THREADS_SERIALISED;
  table.self = entry.importer.get();
  table.id = to_abi(entry.id);
  table.extensions = to_abi(entry.extensions);
  table.model_open = [](void* self, fe_call* call, const fe_model_open_args* args,
                        fe_model_open_out* out) -> int32_t {
    return detail::guarded(call, [&] {
      auto open = std::make_unique<OpenModel>();
      open->model = static_cast<Importer*>(self)->open(from_abi(args->path), bytes_from(args->bytes));
      open->inputs = open->model->inputs();
      open->outputs = open->model->outputs();
      auto describe = [&](const std::vector<Port>& ports, std::vector<fe_port>& abi) {
        for (const auto& port : ports) {
          auto& names = open->names.emplace_back();
          for (const auto& name : port.names) names.push_back(to_abi(name));
          names.resize(port.dims.size());
          auto p = sized<fe_port>();
          p.name = to_abi(port.name);
          p.dtype = static_cast<fe_dtype>(port.dtype);
          p.rank = port.ranked ? static_cast<uint32_t>(port.dims.size()) : FE_NONE32;
          p.dims = port.dims.data();
          p.dim_names = names.data();
          abi.push_back(p);
        }
      };
      describe(open->inputs, open->abi_inputs);
      describe(open->outputs, open->abi_outputs);
      out->model = open.release();
    });
  };
  table.model_close = [](void*, fe_call* call, const fe_model_args* args, fe_none*) -> int32_t {
    return detail::guarded(call, [&] { delete static_cast<OpenModel*>(args->model); });
  };
  table.signature = [](void*, fe_call* call, const fe_model_args* args, fe_signature_out* out) -> int32_t {
    return detail::guarded(call, [&] {
      auto* open = static_cast<OpenModel*>(args->model);
      out->inputs = to_array(open->abi_inputs.data(), open->abi_inputs.size());
      out->outputs = to_array(open->abi_outputs.data(), open->abi_outputs.size());
    });
  };
  table.build = [](void*, fe_call* call, const fe_build_args* args, fe_none*) -> int32_t {
    return detail::guarded(call, [&] {
      Graph graph(args->graph);
      std::vector<TensorType> types;
      for (size_t k = 0; k < args->input_types.count; ++k)
        types.push_back(TensorType::from(element<fe_tensor_type>(args->input_types, k)));
      static_cast<OpenModel*>(args->model)->model->build(graph, types);
    });
  };
  table.coverage = [](void* self, fe_call* call, const fe_none*, fe_sink* sink) -> int32_t {
    return detail::guarded(call, [&] { write(*sink, static_cast<Importer*>(self)->coverage()); });
  };
  contributions_.push_back({FE_CONTRIBUTION_IMPORTER, 0, &table});
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
      const auto cost =
          static_cast<CostModel*>(self)->estimate(from_abi(args->device), bytes_from(args->kernel));
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

namespace detail {

template <class Item>
void contribute(PluginBuilder& builder, const PluginContext& context, Item&& item) {
  if constexpr (std::is_invocable_v<Item, PluginBuilder&, const PluginContext&>)
    item(builder, context);
  else
    builder.add(std::forward<Item>(item));
}

/// The static description of a plugin; `make` fills a builder.
template <class Make>
const fe_plugin_v0* describe_plugin(const char* id, const char* version, Make) {
  static fe_plugin_v0 plugin = [&] {
    auto p = sized<fe_plugin_v0>();
    p.major = FE_ABI_MAJOR;
    p.minor = FE_ABI_MINOR;
    p.id = to_abi(std::string_view(id));
    p.version = to_abi(std::string_view(version));
    p.create = [](void*, fe_call* call, const fe_create_args* args, fe_create_out* out) -> int32_t {
      return guarded(call, [&] {
        auto builder = std::make_unique<PluginBuilder>();
        PluginContext context{Host(args->host), AttrView(args->config)};
        Make()(*builder, context);
        out->contributions = to_array(builder->contributions().data(), builder->contributions().size());
        out->instance = builder.release();
      });
    };
    p.destroy = [](void*, fe_call* call, const fe_destroy_args* args, fe_none*) -> int32_t {
      return guarded(call, [&] { delete static_cast<PluginBuilder*>(args->instance); });
    };
    return p;
  }();
  return &plugin;
}

}  // namespace detail
}  // namespace ferrite::inline v0

#define FERRITE_PLUGIN(id, version, ...)                                                                  \
  extern "C" __attribute__((visibility("default"))) const fe_plugin_v0* fe_plugin_entry_v0(uint32_t) {    \
    return ::ferrite::detail::describe_plugin(                                                            \
        id, version, [](::ferrite::PluginBuilder& builder, const ::ferrite::PluginContext& context) {     \
          auto all = [&](auto&&... items) {                                                               \
            (::ferrite::detail::contribute(builder, context, std::forward<decltype(items)>(items)), ...); \
          };                                                                                              \
          all(__VA_ARGS__);                                                                               \
        });                                                                                               \
  }
