// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/plugin/gate.h"

#include <algorithm>
#include <chrono>

#include "core/graph/api.h"
#include "core/graph/print.h"
#include "core/graph/verify.h"
#include "core/lower/lower.h"
#include "core/rewrite/apply.h"
#include "core/schedule/api.h"
#include "core/support/abi.h"

namespace ferrite::core::plugin {
namespace {

using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

/// What differs between the hooks: how to run a pass, undo it, check what it left, and show it.
struct Stage {
  std::function<Result<bool>(const PassEntry&)> run;  ///< gives whether it says that it changed something
  std::function<void()> begin = [] {};
  std::function<Result<void>()> check = [] { return Result<void>(); };
  std::function<Result<void>()> undo = [] { return Result<void>(); };
  std::function<bool()> changed = [] { return false; };
  std::string_view channel;  ///< of the log: where the text goes after a change
  std::function<std::string()> text = [] { return std::string(); };
};

Result<void> run_all(std::string_view phase, const Registry& registry, const GateOptions& options,
                     Ledger& ledger, const Stage& stage) {
  FE_TRY(auto order, order_passes(registry.passes(), phase));
  for (const auto* entry : order) {
    if (!options.only_passes.empty() && std::find(options.only_passes.begin(), options.only_passes.end(),
                                                  entry->name) == options.only_passes.end())
      continue;
    auto start = Clock::now();
    stage.begin();
    auto ran = stage.run(*entry);
    Result<void> verdict;
    if (!ran) {
      verdict = std::move(ran.error());
    } else if (auto checked = stage.check(); !checked) {
      verdict = error(FE_EINTERNAL, "FE-P11", "what it left is invalid: {}", checked.error().message());
    }
    double milliseconds = milliseconds_since(start);
    if (!verdict) {
      FE_CHECK(stage.undo());
      auto failure =
          error(verdict.error().status, "FE-P10", "pass '{}' of plugin '{}' failed and was undone: {}",
                entry->name, entry->plugin->id, verdict.error().message());
      ledger.add(
          {"pass", entry->name, entry->plugin->id, "failed", {}, verdict.error().message(), milliseconds});
      if (entry->plugin->on_error == OnError::skip) {
        log::print("passes", "{}; skipped, as the manifest says", failure.text);
        continue;
      }
      return at(std::string(phase), std::move(failure));
    }
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

Result<bool> call_pass(const PassEntry& entry, const fe_pass_args& args) {
  abi::Call call;
  auto out = abi::sized<fe_pass_out>();
  int32_t status = entry.pass->run(entry.pass->self, call.get(), &args, &out);
  if (status != FE_OK) return call.error(status, "FE-P10", "it gave no reason");
  return out.changed != 0;
}

}  // namespace

Result<void> run_phase(std::string_view phase, graph::Graph& graph, const Registry& registry,
                       const GateOptions& options, Ledger& ledger) {
  graph::Mark mark;
  uint64_t revision = 0;
  lower::Evaluator evaluator(registry);
  graph::GraphApi api(graph, registry.ops());
  api.set_evaluate([&](graph::Graph& g, graph::ValueId value) { return evaluator.evaluate(g, value); });
  Stage stage;
  stage.begin = [&] {
    mark = graph.mark();
    revision = graph.revision();
  };
  stage.run = [&](const PassEntry& entry) -> Result<bool> {
    if (entry.pass) {
      auto args = abi::sized<fe_pass_args>();
      args.graph = api.api();
      api.set_made_by(entry.name);
      return call_pass(entry, args);
    }
    const auto& rules = registry.compiled_rules(entry.rule_set);
    rewrite::ApplyOptions apply;
    apply.near_misses = options.near_misses;
    FE_TRY(size_t applications,
           rewrite::apply_rules(rules, phase, graph, registry.ops(), ledger, entry.plugin->id, apply));
    return applications > 0;
  };
  stage.check = [&] { return graph::verify(graph, registry.ops(), graph.touched(mark)); };
  stage.undo = [&] { return graph.rollback(mark); };
  stage.changed = [&] { return graph.revision() != revision; };
  stage.channel = "graph";
  stage.text = [&] { return graph::print(graph); };
  FE_CHECK(run_all(phase, registry, options, ledger, stage));
  graph.commit();
  return {};
}

Result<void> run_pre_fusion(const loop::LoopProgram& program, const Registry& registry,
                            const GateOptions& options, schedule::FusionRequests& requests, Ledger& ledger) {
  schedule::FusionRequests before;
  schedule::LoopApi api(program, requests);
  Stage
      stage;  // without a check: each request was checked when it was made, and fuse refuses what is not legal
  stage.begin = [&] { before = requests; };
  stage.run = [&](const PassEntry& entry) -> Result<bool> {
    if (!entry.pass) return false;
    auto args = abi::sized<fe_pass_args>();
    args.loops = api.api();
    return call_pass(entry, args);
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
  stage.begin = [&] { before = schedule.groups; };
  stage.run = [&](const PassEntry& entry) -> Result<bool> {
    if (!entry.pass) return false;
    auto args = abi::sized<fe_pass_args>();
    args.schedule = api.api();
    return call_pass(entry, args);
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
