// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/passes/gate.h"

#include <algorithm>
#include <chrono>

#include "core/ir/graph/api.h"
#include "core/ir/graph/print.h"
#include "core/ir/graph/verify.h"
#include "core/lower/lower.h"
#include "core/observe/observation.h"
#include "core/passes/rewrite/apply.h"
#include "core/schedule/api.h"
#include "core/support/abi/abi.h"
#include "core/support/abi/callback.h"
#include "core/support/elapsed.h"
#include "core/support/warning.h"
#include "ferrite/counted.hpp"

namespace ferrite::core::plugin {
namespace {

using Clock = std::chrono::steady_clock;

using RuleCounts = std::map<std::string, size_t, std::less<>>;

/// How the hooks differ: how to run a pass, undo it, check its result and show it.
struct Stage {
  /// Returns the number of changes; for rules, of applications.
  std::function<Result<size_t>(const PassEntry&, const Deadline&)> run;
  std::function<void(const PassEntry&)> begin = [](const PassEntry&) {};
  std::function<Result<void>()> check = [] { return Result<void>(); };
  std::function<Result<void>()> undo = [] { return Result<void>(); };
  /// Tells the watcher whether the pass and the check succeeded; its error ends the phase.
  std::function<Result<void>(bool)> watch = [](bool) { return Result<void>(); };
  std::function<bool()> changed = [] { return false; };
  RuleCounts* counts = nullptr;  ///< applications per rule of the last pass
  std::string_view channel;      ///< the log channel that shows the text after a change
  std::function<std::string()> text = [] { return std::string(); };
};

/// Runs a pass once, or repeatedly until it changes nothing. Rule sets repeat on their own.
Result<size_t> run_rounds(const Stage& stage, const PassEntry& entry) {
  const Deadline deadline(entry.limits.timeout);
  const size_t most = entry.limits.max_rewrites.value_or(default_max_rewrites);
  const bool again = entry.pass && entry.limits.mode == PassMode::fixpoint;
  size_t changes = 0;
  for (;;) {
    auto made = stage.run(entry, deadline);
    // Check the deadline before the pass's own error: after a timeout every slot fails, and the pass may
    // report that as any error.
    FE_CHECK(deadline.check());
    if (!made) return std::move(made.error());
    changes += *made;
    if (!again || *made == 0) return changes;
    if (changes > most)
      return error(
          FE_EINVALID, "FE-M25",
          "it still changes something after max_rewrites = {} rounds; correct it, or run it with mode = "
          "\"once\"",
          most);
  }
}

/// Whether a pass or its rules were applied as often as the manifest expects.
Result<void> check_expectations(const PassEntry& entry, size_t applications, const RuleCounts& counts) {
  const auto check = [&](const Expectation& expect, std::string_view what, std::string_view name,
                         size_t count) -> Result<void> {
    if (expect.holds(count)) return {};
    return at(expect.where,
              error(FE_EINVALID, "FE-M20",
                    "{} '{}' of plugin '{}' was applied {} in {}, expected is {}; see "
                    "`ferrite explain`, or drop "
                    "the expectation",
                    what, name, entry.plugin->id, counted(count, "time"), entry.phase, expect.text));
  };
  if (entry.expect) FE_CHECK(check(*entry.expect, "pass", entry.name, applications));
  for (const auto& [name, expect] : entry.rule_expectations) {
    auto found = counts.find(name);
    FE_CHECK(check(expect, "rule", name, found == counts.end() ? 0 : found->second));
  }
  return {};
}

/// The part of a pass that --pass selects: all of it, some of its rules, or nothing.
struct Selected {
  bool all = false;
  std::vector<std::string> rules;
};

Selected selected(const PassEntry& entry, const std::vector<std::string>& only_passes) {
  Selected result{only_passes.empty(), {}};
  for (const std::string& wanted : only_passes) {
    result.all = result.all || wanted == entry.name;
    for (const std::string& rule : entry.rules)
      if (wanted == entry.name + "#" + rule) result.rules.push_back(rule);
  }
  return result;
}

Result<void> run_all(std::string_view phase, const Registry& registry, const GateOptions& options,
                     Ledger& ledger, const Stage& stage) {
  FE_TRY(auto order, order_passes(registry.passes(), phase));
  for (const auto* entry : order) {
    const auto chosen = selected(*entry, options.only_passes);
    if (!chosen.all && chosen.rules.empty()) continue;
    // Manifests state the count for the whole pass, so a selection of rules cannot be checked.
    const bool expect = options.expect && chosen.all;
    auto start = Clock::now();
    stage.begin(*entry);
    auto ran = run_rounds(stage, *entry);
    Result<void> verdict;
    if (!ran) {
      verdict = std::move(ran.error());
    } else if (auto checked = stage.check(); !checked) {
      verdict =
          error(FE_EINTERNAL, "FE-P11", "the graph that it left is invalid: {}", checked.error().message());
    }
    double milliseconds = milliseconds_since(start);
    if (options.observation)
      options.observation->add(
          {"pass", entry->name, start, Clock::now(), 0, {{"plugin", entry->plugin->id}}});
    // Tell the watcher in either case, before the pass is undone: it may look at the graph that the pass
    // left.
    if (auto watched = stage.watch(verdict.has_value()); !watched) {
      FE_CHECK(stage.undo());
      return watched;
    }
    if (!verdict) {
      FE_CHECK(stage.undo());
      auto failure =
          error(verdict.error().status, "FE-P10", "pass '{}' of plugin '{}' failed and was undone: {}",
                entry->name, entry->plugin->id, verdict.error().message());
      ledger.add(
          {"pass", entry->name, entry->plugin->id, "failed", {}, verdict.error().message(), milliseconds});
      if (entry->plugin->on_error == OnError::skip) {
        log::warn("passes", fmt::format("{}; skipped, as the manifest says", failure.text));
        // A skipped pass was applied 0 times. That may violate an expectation, which is never skipped.
        if (expect) FE_CHECK(check_expectations(*entry, 0, {}));
        continue;
      }
      return at(std::string(phase), std::move(failure));
    }
    if (expect) FE_CHECK(check_expectations(*entry, *ran, stage.counts ? *stage.counts : RuleCounts()));
    bool changed = stage.changed();
    ledger.add({"pass",
                entry->name,
                entry->plugin->id,
                changed ? "changed" : "unchanged",
                {},
                std::string(phase),
                milliseconds});
    log::print("passes", "{:<16} {:<32} {:8.3f} ms {}", phase, entry->name, milliseconds,
               changed ? "changed" : "");
    if (changed && log::enabled(stage.channel))
      log::write(stage.channel, fmt::format("after {}\n{}", entry->name, stage.text()));
  }
  return {};
}

Result<void> call_pass(const PassEntry& entry, const fe_pass_args& args, const Deadline& deadline) {
  abi::Call call;
  call.cancel_when([&] { return deadline.passed(); });
  auto out = abi::sized<fe_pass_out>();
  int32_t status = callback::call({entry.plugin->id, "pass", entry.name}, entry.pass->run, entry.pass->self,
                                  call, &args, &out);
  return call.check(status, "FE-P10", "it gave no reason");
}

}  // namespace

rewrite::ApplyOptions apply_options(const PassEntry& entry, const Deadline& deadline) {
  rewrite::ApplyOptions options;
  options.max_rewrites = entry.limits.max_rewrites.value_or(default_max_rewrites);
  options.once = entry.limits.mode == PassMode::once;
  options.deadline = deadline;
  return options;
}

Result<void> run_phase(std::string_view phase, graph::Graph& graph, const Registry& registry,
                       const GateOptions& options, Ledger& ledger) {
  graph::Mark mark;
  uint64_t revision = 0;
  lower::Evaluator evaluator(registry);
  graph::GraphApi api(graph, registry.ops());
  api.set_evaluate([&](graph::Graph& g, graph::ValueId value) { return evaluator.evaluate(g, value); });
  Stage stage;
  stage.begin = [&](const PassEntry& entry) {
    mark = graph.mark();
    revision = graph.revision();
    if (options.watcher) options.watcher->begin(phase, entry, graph);
  };
  RuleCounts counts;
  stage.counts = &counts;
  stage.run = [&](const PassEntry& entry, const Deadline& deadline) -> Result<size_t> {
    counts.clear();
    if (entry.pass) {
      const auto before = graph.revision();
      auto args = abi::sized<fe_pass_args>();
      // A new table for each callback: a pass that kept an earlier one is refused.
      api.renew();
      args.graph = api.api();
      api.set_made_by(entry.name);
      api.set_deadline(deadline);
      FE_CHECK(call_pass(entry, args, deadline));
      FE_CHECK(api.check());
      return size_t{graph.revision() != before};
    }
    auto apply = apply_options(entry, deadline);
    apply.counts = &counts;
    apply.near_misses = options.near_misses;
    apply.watcher = options.watcher;
    const auto& rules = registry.compiled_rules(entry.rule_set);
    const auto chosen = selected(entry, options.only_passes);
    rewrite::CompiledRules some;
    if (!chosen.all) {
      some.predicates = rules.predicates;
      for (const auto& rule : rules.rules)
        if (std::ranges::find(chosen.rules, rule.name) != chosen.rules.end()) some.rules.push_back(rule);
    }
    return rewrite::apply_rules(chosen.all ? rules : some, phase, graph, registry.ops(), ledger,
                                entry.plugin->id, apply);
  };
  stage.check = [&] { return graph::verify(graph, registry.ops(), graph.touched(mark)); };
  stage.undo = [&] { return graph.rollback(mark); };
  stage.watch = [&](bool well) {
    return options.watcher ? options.watcher->end(graph, well) : Result<void>();
  };
  stage.changed = [&] { return graph.revision() != revision; };
  stage.channel = "graph";
  stage.text = [&] { return graph::print(graph); };
  FE_CHECK(run_all(phase, registry, options, ledger, stage));
  // No pass can be undone any more after the phase, so drop the history.
  graph.commit();
  return {};
}

Result<void> run_pre_fusion(const loop::LoopProgram& program, const Registry& registry,
                            const GateOptions& options, schedule::FusionRequests& requests, Ledger& ledger) {
  schedule::FusionRequests before;
  schedule::LoopApi api(program, &requests);
  Stage stage;  // no check: each request was checked when it was made, and fusion rejects illegal ones
  stage.begin = [&](const PassEntry&) { before = requests; };
  stage.run = [&](const PassEntry& entry, const Deadline& deadline) -> Result<size_t> {
    if (!entry.pass) return size_t{0};
    // The pass changes requests. NOLINTNEXTLINE(performance-unnecessary-copy-initialization)
    const auto last = requests;
    auto args = abi::sized<fe_pass_args>();
    args.loops = api.api();
    api.set_deadline(deadline);
    FE_CHECK(call_pass(entry, args, deadline));
    FE_CHECK(api.check());
    return size_t{requests.forbidden != last.forbidden || requests.forced != last.forced};
  };
  stage.undo = [&]() -> Result<void> {
    requests = before;
    return {};
  };
  stage.changed = [&] { return requests.forbidden != before.forbidden || requests.forced != before.forced; };
  stage.channel = "schedule";
  stage.text = [&] { return schedule::print(requests); };
  return run_all("pre_fusion", registry, options, ledger, stage);
}

Result<void> run_post_fusion(schedule::Schedule& schedule, const Registry& registry,
                             const GateOptions& options, Ledger& ledger) {
  std::vector<schedule::Group> before;
  schedule::ScheduleApi api(schedule);
  Stage stage;
  stage.begin = [&](const PassEntry&) { before = schedule.groups; };
  stage.run = [&](const PassEntry& entry, const Deadline& deadline) -> Result<size_t> {
    if (!entry.pass) return size_t{0};
    const auto last = schedule.groups;
    auto args = abi::sized<fe_pass_args>();
    args.schedule = api.api();
    api.set_deadline(deadline);
    FE_CHECK(call_pass(entry, args, deadline));
    FE_CHECK(api.check());
    return size_t{schedule.groups != last};
  };
  stage.undo = [&]() -> Result<void> {
    schedule.groups = before;
    return {};
  };
  stage.check = [&] { return schedule::verify(schedule); };
  stage.changed = [&] { return schedule.groups != before; };
  stage.channel = "schedule";
  stage.text = [&] { return schedule::print(schedule); };
  return run_all("post_fusion", registry, options, ledger, stage);
}

}  // namespace ferrite::core::plugin
