// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tools/plugin_check/numerics.h"

#include <algorithm>
#include <array>
#include <functional>
#include <optional>

#include "core/ir/graph/print.h"
#include "core/ir/graph/verify.h"
#include "core/lower/lower.h"
#include "core/passes/gate.h"
#include "core/schedule/schedule.h"
#include "driver/validate/compare.h"
#include "driver/validate/try_rule.h"
#include "driver/validate/uncompared.h"
#include "ferrite/counted.hpp"
#include "tools/plugin_check/random_graph.h"
#include "tools/plugin_check/subject.h"

namespace ferrite::core::plugin_check {
namespace {

constexpr size_t compared_graphs = 150;
constexpr size_t most_rounds = 8;

/// Tests one rule on graphs that are drawn from its own text.
Verdict check_rule(const rewrite::CompiledRules& rules, size_t index, const Subject& subject, uint64_t seed) {
  validate::TryOptions options;
  options.plugin = subject.plugin().id;
  options.seed = seed;
  const auto verdict = validate::try_rule(rules, index, subject.registry(), options);
  switch (verdict.kind) {
    case validate::Verdict::Kind::passed: {
      std::string text = counted(verdict.samples, "graph");
      if (!verdict.thin.empty()) text += fmt::format(", thin evidence: {}", fmt::join(verdict.thin, "; "));
      text += "\n    covered: " + verdict.covered.text();
      if (!verdict.unreached.empty()) text += "\n    not reached: " + verdict.unreached;
      return Verdict::passed(std::move(text));
    }
    case validate::Verdict::Kind::untested: return Verdict::skipped(verdict.reason);
    case validate::Verdict::Kind::wrong: break;
  }
  return error(FE_EINVALID, "FE-P49", "it changes what a graph computes: {}{}", verdict.reason,
               verdict.counterexample ? "\n" + graph::print(*verdict.counterexample) : "");
}

bool is_phase(const plugin::PassEntry& pass, std::string_view name) { return pass.phase == name; }

/// Runs one pass, or the rules of a set, through the gate, as compiling does.
Result<void> run_pass(const plugin::PassEntry& pass, graph::Graph& graph, const plugin::Registry& registry) {
  Ledger ledger;
  plugin::GateOptions options;
  options.only_passes = {pass.name};
  options.expect = false;  // expectations concern the manifest author's models, not sampled graphs
  return plugin::run_phase(pass.phase, graph, registry, options, ledger);
}

/// The interface of the program: names, types and order of inputs and outputs.
std::string signature_of(const graph::Graph& graph) {
  std::string text;
  for (const auto& input : graph.inputs())
    text += fmt::format("{} {}, ", graph.value(input.value).name,
                        graph::print_type(graph.symbols(), graph.type(input.value)));
  text += "-> ";
  for (const auto& output : graph.outputs())
    text += fmt::format("{} {}, ", output.name, graph::print_type(graph.symbols(), graph.type(output.value)));
  return text;
}

/// A graph, the result of the pass, and whether it differs.
struct Run {
  const graph::Graph* before;
  Result<graph::Graph> after;
  bool changed = false;
};

/// Stops at the first graph on which the pass fails, so that an endless pass costs its time limit only once.
std::vector<Run> run_over(const plugin::PassEntry& pass, const std::vector<graph::Graph>& graphs,
                          const plugin::Registry& registry) {
  std::vector<Run> runs;
  for (const auto& graph : graphs) {
    graph::Graph copy(graph);
    auto done = run_pass(pass, copy, registry);
    if (!done) {
      runs.push_back({&graph, std::move(done.error()), false});
      break;
    }
    const bool changed = graph::print(copy) != graph::print(graph);
    runs.push_back({&graph, std::move(copy), changed});
  }
  return runs;
}

size_t changed(const std::vector<Run>& runs) {
  return static_cast<size_t>(
      std::count_if(runs.begin(), runs.end(), [](const Run& run) { return run.changed; }));
}

Verdict check_valid(const std::vector<Run>& runs, const plugin::Registry& registry) {
  for (const auto& run : runs) {
    if (!run.after)
      return error(FE_EINVALID, "FE-P49", "on {}: {}", run.before->name(), run.after.error().message());
    if (auto verified = graph::verify(*run.after, registry.ops()); !verified)
      return error(FE_EINVALID, "FE-P49", "the graph that it makes of {} is invalid: {}", run.before->name(),
                   verified.error().message());
    const auto before = signature_of(*run.before), after = signature_of(*run.after);
    if (before != after)
      return error(FE_EINVALID, "FE-P49", "it changes the inputs or outputs of {}: {} became {}",
                   run.before->name(), before, after);
  }
  return Verdict::passed(fmt::format("{}, {} of them changed", counted(runs.size(), "graph"), changed(runs)));
}

Verdict check_equal(const std::vector<Run>& runs, const plugin::Registry& registry, uint64_t seed) {
  size_t compared = 0;
  validate::Uncompared skipped;
  for (const auto& run : runs) {
    if (!run.changed || !run.after) continue;
    const auto before = interpretable(*run.before, registry, skipped);
    if (!before) continue;
    const auto after = validate::Interpreted::make(*run.after, registry);
    if (!after)
      return error(FE_EINVALID, "FE-P49", "the graph that it makes of {} cannot be interpreted any more: {}",
                   run.before->name(), after.error().message());
    const auto difference = validate::compare(*before, *after, validate::ordinary_contents, seed);
    if (!difference) {  // the inputs are valid for no op of the graph, before and after the pass
      skipped.failed(difference.error());
      continue;
    }
    ++compared;
    if (*difference)
      return error(FE_EINVALID, "FE-P49", "it changes what {} computes: {}\n{}", run.before->name(),
                   (*difference)->text(), graph::print(*run.before));
  }
  if (compared > 0) return Verdict::passed(counted(compared, "graph") + skipped.and_text());
  if (skipped.count() == 0)
    return Verdict::skipped("none of the sampled graphs is changed by it; give models with --sample");
  return nothing_compared(skipped);
}

Verdict check_settles(const plugin::PassEntry& pass, const std::vector<Run>& runs,
                      const plugin::Registry& registry) {
  size_t tried = 0, most = 0;
  for (const auto& run : runs) {
    if (!run.changed || !run.after) continue;
    graph::Graph graph(*run.after);
    ++tried;
    size_t rounds = 0;
    for (std::string text = graph::print(graph);; ++rounds) {
      FE_CHECK(run_pass(pass, graph, registry));
      auto next = graph::print(graph);
      if (next == text) break;
      text = std::move(next);
      if (rounds == most_rounds)
        return error(FE_EINVALID, "FE-P50", "run again and again on {}, it still changes it after {} times",
                     run.before->name(), most_rounds);
    }
    most = std::max(most, rounds);
  }
  if (tried == 0)
    return Verdict::skipped("none of the sampled graphs is changed by it; give models with --sample");
  return Verdict::passed(most == 0 ? fmt::format("{}: a second run changes nothing", counted(tried, "graph"))
                                   : fmt::format("{}: changed by at most {}", counted(tried, "graph"),
                                                 counted(most, "further run")));
}

Verdict check_repeatable(const plugin::PassEntry& pass, const std::vector<Run>& runs,
                         const plugin::Registry& registry) {
  for (const auto& run : runs) {
    graph::Graph copy(*run.before);
    const auto done = run_pass(pass, copy, registry);
    const bool same = run.after ? done && graph::print(copy) == graph::print(*run.after) : !done;
    if (!same)
      return error(FE_EINVALID, "FE-P50", "run twice on {}, it gives two results", run.before->name());
  }
  return Verdict::passed(counted(runs.size(), "graph"));
}

/// pre_fusion and post_fusion: their requests are deterministic, and the groups that they leave are legal.
Verdict check_schedule_pass(const plugin::PassEntry& pass, const std::vector<graph::Graph>& graphs,
                            const plugin::Registry& registry) {
  plugin::GateOptions options;
  options.only_passes = {pass.name};
  size_t tried = 0;
  for (const auto& graph : graphs) {
    std::array<std::string, 2> texts;
    for (auto& text : texts) {
      graph::Graph copy(graph);
      Ledger ledger;
      if (!lower::decompose(copy, registry, "interpreter", false, ledger)) break;
      auto program = lower::lower(copy, registry, "interpreter", ledger);
      if (!program) break;
      schedule::inline_producers(*program, {}, ledger);
      schedule::FusionRequests requests;
      if (is_phase(pass, "pre_fusion"))
        FE_CHECK(plugin::run_pre_fusion(*program, registry, options, requests, ledger));
      text = schedule::print(requests);
      auto schedule = schedule::fuse(std::move(*program), requests, {}, ledger);
      if (!is_phase(pass, "pre_fusion"))
        FE_CHECK(plugin::run_post_fusion(schedule, registry, options, ledger));
      FE_CHECK(schedule::verify(schedule));
      text += schedule::print(schedule);
    }
    tried += !texts[0].empty();
    if (texts[0] != texts[1])
      return error(FE_EINVALID, "FE-P50", "run twice on {}, it gives two results", graph.name());
  }
  if (tried == 0) return Verdict::skipped("none of the sampled graphs could be lowered");
  return Verdict::passed(fmt::format("{} of {}", tried, counted(graphs.size(), "graph")));
}

}  // namespace

Verdict nothing_compared(const validate::Uncompared& skipped) {
  return Verdict::skipped(
      fmt::format("nothing was compared: {}; give smaller models with --sample", skipped.text()));
}

std::optional<validate::Interpreted> interpretable(const graph::Graph& graph,
                                                   const plugin::Registry& registry,
                                                   validate::Uncompared& skipped) {
  auto interpreted = validate::Interpreted::make(graph, registry);
  if (interpreted && interpreted->points() <= most_points) return std::move(*interpreted);
  interpreted ? skipped.too_large() : skipped.failed(interpreted.error());
  return std::nullopt;
}

bool works_on_graphs(const plugin::PassEntry& pass) {
  return !is_phase(pass, "pre_fusion") && !is_phase(pass, "post_fusion");
}

std::vector<graph::Graph> sample_graphs(const Subject& subject, const CheckOptions& options, size_t count) {
  std::vector<graph::Graph> graphs;
  for (const auto& path : options.samples)
    // check_samples() reports a model that cannot be imported.
    if (auto graph = subject.import_model(path)) graphs.push_back(std::move(*graph));
  Sampler sampler(subject.registry().ops(), options.seed);
  while (!sampler.empty() && count-- > 0) graphs.push_back(sampler.next());
  return graphs;
}

void check_passes(const CheckOptions& options, const Subject& subject, Runner& runner) {
  const auto& registry = subject.registry();
  std::vector<graph::Graph> graphs;
  for (const auto* pass : subject.passes()) {
    std::optional<std::vector<Run>> runs;
    auto with_graphs = [&](std::string_view what, const std::function<Verdict()>& check) {
      runner.run(fmt::format("{} {} ({}): {}", pass->pass ? "pass" : "rules", pass->name, pass->phase, what),
                 [&]() -> Verdict {
                   if (graphs.empty()) graphs = sample_graphs(subject, options, compared_graphs);
                   if (graphs.empty())
                     return Verdict::skipped("no op has samples out of which graphs could be made");
                   if (works_on_graphs(*pass) && !runs) runs = run_over(*pass, graphs, registry);
                   return check();
                 });
    };
    if (!works_on_graphs(*pass)) {
      with_graphs("schedule", [&] { return check_schedule_pass(*pass, graphs, registry); });
      continue;
    }
    with_graphs("valid", [&] { return check_valid(*runs, registry); });
    with_graphs("numerics", [&] { return check_equal(*runs, registry, options.seed); });
    with_graphs("settles", [&] { return check_settles(*pass, *runs, registry); });
    with_graphs("repeatable", [&] { return check_repeatable(*pass, *runs, registry); });
    if (pass->pass) continue;
    const auto& rules = registry.compiled_rules(pass->rule_set);
    for (size_t k = 0; k < rules.rules.size(); ++k)
      if (rules.rules[k].phase == pass->phase)
        runner.run(fmt::format("rule {} ({})", rules.rules[k].name, pass->phase),
                   [&] { return check_rule(rules, k, subject, options.seed); });
  }
}

}  // namespace ferrite::core::plugin_check
