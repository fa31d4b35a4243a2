// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The tables of contributions that work on graphs: ops, their lowerings and decompositions, passes, rules,
// importers, import handlers.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "ferrite/detail/plugin_builder.hpp"

namespace ferrite::inline v0 {

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
    entry.flags = attribute.flags;
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

inline void PluginBuilder::add(ImportHandlerDef def) {
  auto& entry = import_handlers_.emplace_back(ImportHandlerTable{std::move(def), {}});
  auto& table = entry.table;
  table = sized<fe_import_handler>();
  table.rev = 1;
  table.self = &entry;
  table.source = to_abi(entry.def.source);
  table.first = entry.def.first;
  table.last = entry.def.last;
  table.import_node = [](void* self, fe_call* call, const fe_import_args* args,
                         fe_import_out* out) -> int32_t {
    return detail::guarded(call, [&] {
      Graph graph(args->graph);
      graph.set_origin(std::string(from_abi(args->node->name)));
      const auto table = at_own_size(args->node);
      const ImportNode node(graph, table);
      const auto results = static_cast<ImportHandlerTable*>(self)->def.import(graph, node);
      if (results.size() > out->capacity)
        fail("FE-I42", "it gave ", results.size(), " results for a node that has ", out->capacity);
      node.refuse_ignored();
      for (size_t k = 0; k < results.size(); ++k) out->results[k] = results[k].handle();
    });
  };
  contributions_.push_back({FE_CONTRIBUTION_IMPORT_HANDLER, 0, &table});
}

namespace detail {
inline std::vector<TensorType> types_from(const fe_array& array) {
  std::vector<TensorType> types;
  for (size_t k = 0; k < array.count; ++k)
    types.push_back(TensorType::from(element<fe_tensor_type>(array, k)));
  return types;
}
}  // namespace detail

inline void PluginBuilder::add(std::unique_ptr<Importer> importer) {
  auto& entry = importers_.emplace_back(ImporterTable{std::move(importer), {}, {}, {}, {}});
  entry.id = entry.importer->id();
  entry.extensions = entry.importer->extensions();
  entry.format = entry.importer->format();
  auto& table = entry.table;
  table = sized<fe_importer>();
  table.rev = 3;
  table.thread_model = FE_THREADS_SERIALISED;
  table.self = entry.importer.get();
  table.id = to_abi(entry.id);
  table.extensions = to_abi(entry.extensions);
  table.format = to_abi(entry.format);
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
      const PluginOps plugins(at_own_size(args).plugins);
      static_cast<OpenModel*>(args->model)
          ->model->build_with(graph, detail::types_from(args->input_types), plugins);
    });
  };
  table.unsupported = [](void*, fe_call* call, const fe_build_args* args, fe_sink* sink) -> int32_t {
    return detail::guarded(call, [&] {
      Graph graph(args->graph);
      const PluginOps plugins(at_own_size(args).plugins);
      write(*sink, static_cast<OpenModel*>(args->model)
                       ->model->unsupported(graph, detail::types_from(args->input_types), plugins));
    });
  };
  table.coverage = [](void* self, fe_call* call, const fe_none*, fe_sink* sink) -> int32_t {
    return detail::guarded(call, [&] { write(*sink, static_cast<Importer*>(self)->coverage()); });
  };
  contributions_.push_back({FE_CONTRIBUTION_IMPORTER, 0, &table});
}

}  // namespace ferrite::inline v0
