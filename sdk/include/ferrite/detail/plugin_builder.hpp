// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Builds the ABI tables of a plugin's contributions. Include plugin.hpp, not this file.
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

/// Owns the tables of one plugin instance. Everything added lives until destroy.
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
  void add(ImportHandlerDef def);
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
    std::string id, extensions, format;
    fe_importer table{};
  };
  struct ImportHandlerTable {
    ImportHandlerDef def;
    fe_import_handler table{};
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
  std::deque<ImportHandlerTable> import_handlers_;
  std::deque<PolicyTable> policies_;
  std::deque<CostTable> costs_;
  std::deque<SinkTable> sinks_;
  static void add_exec(fe_provider& table);
  static void add_claim(fe_provider& table);
  static void add_streams(fe_runtime& table);

  std::vector<fe_contribution> contributions_;
};

}  // namespace ferrite::inline v0
