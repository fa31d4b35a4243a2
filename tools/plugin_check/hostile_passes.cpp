// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// L2 of passes and of rules' predicates.
#include <algorithm>
#include <optional>

#include "core/ir/graph/api.h"
#include "core/ir/graph/print.h"
#include "core/ir/graph/verify.h"
#include "core/lower/lower.h"
#include "core/passes/gate.h"
#include "core/passes/rewrite/apply.h"
#include "ferrite/counted.hpp"
#include "tools/plugin_check/hostile.h"
#include "tools/plugin_check/numerics.h"
#include "tools/plugin_check/random_graph.h"
#include "tools/plugin_check/subject.h"

namespace ferrite::core::plugin_check {
namespace {

constexpr size_t hostile_pass_graphs = 12;
constexpr size_t most_refused_by_pass = 24;  // calls of one run
constexpr size_t thread_rounds = 4;
constexpr size_t most_rewrites = 1000;  // endless rules fail sooner, and as often

/// A predicate that is called with treated arguments. It cannot be copied, because the table points to it.
struct TreatedPredicate {
  const fe_predicate* real = nullptr;
  Treatment* treatment = nullptr;
  fe_predicate table{};

  void set(const fe_predicate& given, Treatment& how) {
    real = &given;
    treatment = &how;
    table = given;
    table.self = this;
    table.accept = [](void* self, fe_call* call, const fe_match_args* args,
                      fe_predicate_out* out) -> int32_t {
      return static_cast<TreatedPredicate*>(self)->accept(call, *args, *out);
    };
  }
  int32_t accept(fe_call* call, fe_match_args args, fe_predicate_out& out) const {
    // Calls are counted over all calls of the predicate in one run of the rules.
    const size_t before = treatment->calls;
    Refusing<fe_graph_api> refusing(*args.graph,
                                    treatment->refused > before ? treatment->refused - before : 0);
    wrap_all(refusing);
    Enlarged<fe_graph_api> table(*refusing.get());
    args.graph = treatment->larger ? table.get() : refusing.get();
    Enlarged<fe_match_args> larger_args(args);
    Enlarged<fe_predicate_out> larger_out(out);
    const int32_t status = real->accept(real->self, call, treatment->larger ? larger_args.get() : &args,
                                        treatment->larger ? larger_out.get() : &out);
    if (treatment->larger) abi::write(&out, abi::read(larger_out.get()));
    treatment->calls += refusing.calls();
    treatment->intact = treatment->intact && larger_args.intact() && larger_out.intact() && table.intact();
    return status;
  }
};

Result<std::string> run_rules(const plugin::PassEntry& pass, graph::Graph& graph,
                              const plugin::Registry& registry, Treatment& treatment) {
  const auto& set = registry.rule_sets()[pass.rule_set];
  std::vector<TreatedPredicate> treated(set.predicates.size());
  std::vector<fe_predicate> tables;
  for (size_t k = 0; k < treated.size(); ++k) {
    treated[k].set(set.predicates[k], treatment);
    tables.push_back(treated[k].table);
  }
  FE_TRY(const auto rules, rewrite::compile_rules(set.text, set.file, tables, registry.ops()));
  Ledger ledger;
  auto apply = plugin::apply_options(pass, Deadline(pass.limits.timeout));
  apply.max_rewrites = std::min(apply.max_rewrites, most_rewrites);
  FE_TRY(const auto count,
         rewrite::apply_rules(rules, pass.phase, graph, registry.ops(), ledger, pass.plugin->id, apply));
  static_cast<void>(count);
  return graph::print(graph);
}

Result<std::string> run_callback(const plugin::PassEntry& pass, graph::Graph& graph,
                                 const plugin::Registry& registry, Treatment& treatment) {
  lower::Evaluator evaluator(registry);
  graph::GraphApi api(graph, registry.ops());
  api.set_made_by(pass.name);
  api.set_evaluate([&](graph::Graph& g, graph::ValueId value) { return evaluator.evaluate(g, value); });
  Refusing<fe_graph_api> refusing(*api.api(), treatment.refused);
  wrap_all(refusing);
  Enlarged<fe_graph_api> table(*refusing.get());
  auto args = abi::sized<fe_pass_args>();
  args.graph = treatment.larger ? table.get() : refusing.get();
  auto out = abi::sized<fe_pass_out>();
  Enlarged<fe_pass_args> larger_args(args);
  Enlarged<fe_pass_out> larger_out(out);
  abi::Call call;
  const int32_t status =
      pass.pass->run(pass.pass->self, call.get(), treatment.larger ? larger_args.get() : &args,
                     treatment.larger ? larger_out.get() : &out);
  treatment.calls = refusing.calls();
  treatment.intact = larger_args.intact() && larger_out.intact() && table.intact();
  if (status != FE_OK) return call.error(status, "FE-P10", "it gave no reason");
  return graph::print(graph);
}

struct Trial {
  const graph::Graph* graph;
  std::string expected;  ///< text, or the message of the error
};

std::string outcome_of(const Result<std::string>& result) {
  return result ? *result : "error: " + result.error().message();
}

Verdict larger_structs(const plugin::PassEntry& pass, const std::vector<Trial>& trials,
                       const plugin::Registry& registry) {
  for (const auto& trial : trials) {
    Treatment treatment;
    treatment.larger = true;
    const auto result = run_treated(pass, *trial.graph, registry, treatment);
    if (!treatment.intact)
      return error(FE_EINVALID, "FE-P46",
                   "it writes past the end of the structs that it is given: use their 'size', and that of "
                   "this version");
    if (outcome_of(result) != trial.expected)
      return error(
          FE_EINVALID, "FE-P46",
          "with structs of a later version it gives another result on {}: read what this version has of a "
          "struct, whatever its size",
          trial.graph->name());
  }
  return Verdict::passed(counted(trials.size(), "graph"));
}

Verdict refused(const plugin::PassEntry& pass, const std::vector<Trial>& trials,
                const plugin::Registry& registry) {
  size_t tried = 0;
  for (const auto& trial : trials) {
    Treatment count;
    static_cast<void>(run_treated(pass, *trial.graph, registry, count));
    for (size_t k : refused_calls(count.calls, most_refused_by_pass)) {
      Treatment treatment;
      treatment.refused = k;
      // The graph is verified only if the pass reports success; after a failure, the host rolls back.
      const auto result = run_treated(pass, *trial.graph, registry, treatment);
      if (!result && result.error().code == "FE-P11")
        return error(FE_EINVALID, "FE-P47",
                     "when call {} of the host is refused on {}, it says that all is well: {}", k,
                     trial.graph->name(), result.error().text);
      ++tried;
      Treatment after;
      if (outcome_of(run_treated(pass, *trial.graph, registry, after)) != trial.expected)
        return error(FE_EINVALID, "FE-P47",
                     "after call {} of the host was refused on {}, later runs give another result", k,
                     trial.graph->name());
    }
  }
  if (tried == 0) return Verdict::skipped("it makes no calls of the host on the sampled graphs");
  return Verdict::passed(counted(tried, "call"));
}

Verdict two_threads(const plugin::PassEntry& pass, const std::vector<Trial>& trials,
                    const plugin::Registry& registry) {
  FE_CHECK(in_two_threads([&] {
    std::string fault;
    for (size_t round = 0; round < thread_rounds && fault.empty(); ++round)
      for (const auto& trial : trials) {
        Treatment treatment;
        if (outcome_of(run_treated(pass, *trial.graph, registry, treatment)) != trial.expected)
          fault = "it gives another result on " + trial.graph->name();
      }
    return fault;
  }));
  return Verdict::passed(counted(trials.size(), "graph"));
}

}  // namespace

void wrap_all(Refusing<fe_graph_api>& table) {
  table.wrap<&fe_graph_api::view>();
  table.wrap<&fe_graph_api::node>();
  table.wrap<&fe_graph_api::value>();
  table.wrap<&fe_graph_api::make>();
  table.wrap<&fe_graph_api::literal>();
  table.wrap<&fe_graph_api::weight>();
  table.wrap<&fe_graph_api::input>();
  table.wrap<&fe_graph_api::output>();
  table.wrap<&fe_graph_api::replace_uses>();
  table.wrap<&fe_graph_api::erase>();
  table.wrap<&fe_graph_api::set_operand>();
  table.wrap<&fe_graph_api::set_attr>();
  table.wrap<&fe_graph_api::evaluate>();
  table.wrap<&fe_graph_api::users>();
  table.wrap<&fe_graph_api::set_input_memory>();
}

Result<std::string> run_treated(const plugin::PassEntry& pass, graph::Graph graph,
                                const plugin::Registry& registry, Treatment& treatment) {
  auto result = pass.pass ? run_callback(pass, graph, registry, treatment)
                          : run_rules(pass, graph, registry, treatment);
  if (!result) return result;
  auto verified = graph::verify(graph, registry.ops());
  if (!verified)
    return error(FE_EINTERNAL, "FE-P11", "the graph that it left is invalid: {}", verified.error().message());
  return result;
}

void check_hostile_passes(const CheckOptions& options, const Subject& subject, Runner& runner) {
  const auto& registry = subject.registry();
  std::vector<graph::Graph> graphs;
  auto names = [&](const plugin::PassEntry& pass, std::string_view what) {
    return fmt::format("{} {} ({}): {}", pass.pass ? "pass" : "rules", pass.name, pass.phase, what);
  };
  for (const auto* pass : subject.passes()) {
    std::vector<Trial> trials;
    auto with_trials = [&](std::string_view what, auto check) {
      runner.run(names(*pass, what), [&]() -> Verdict {
        if (!works_on_graphs(*pass)) return Verdict::skipped("the hook has no graph");
        if (!pass->pass && registry.rule_sets()[pass->rule_set].predicates.empty())
          return Verdict::skipped("these rules call nothing of the plugin");
        if (graphs.empty()) graphs = sample_graphs(subject, options, hostile_pass_graphs);
        if (graphs.empty()) return Verdict::skipped("no op has samples out of which graphs could be made");
        for (size_t k = trials.size(); k < graphs.size(); ++k) {
          Treatment plain;
          trials.push_back({&graphs[k], outcome_of(run_treated(*pass, graphs[k], registry, plain))});
        }
        return check(*pass, trials, registry);
      });
    };
    with_trials("larger structs", larger_structs);
    with_trials("refused host calls", refused);
    with_trials("two threads", two_threads);
  }
}

}  // namespace ferrite::core::plugin_check
