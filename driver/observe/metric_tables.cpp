// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "driver/observe/metric_tables.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "core/support/suggest.h"
#include "driver/observe/metrics.h"
#include "driver/observe/peaks.h"

namespace ferrite::core::observe {
namespace {

constexpr std::array<std::string_view, 6> table_names = {"graph",  "fusion", "statement",
                                                         "kernel", "cache",  "selection"};

std::string known(int64_t value) { return value < 0 ? "unknown" : std::to_string(value); }

std::string estimate_text(std::optional<double> seconds) {
  return seconds ? fmt::format("{:.3f}", *seconds * 1e6) : "unknown";
}

std::string sizes_text(const std::vector<int64_t>& sizes) { return fmt::format("{}", fmt::join(sizes, "x")); }

MetricTable graph_table(const std::string& model, const Observation& seen, const CompileStats& stats) {
  MetricTable table("graph", {"model", "stage", "milliseconds", "nodes_before", "nodes_after",
                              "statements_after", "groups_after", "statements", "nodes_before_fusion",
                              "kernels", "peak_bytes", "workspace_bytes", "op_by_op_bytes"});
  size_t before_fusion = 0;
  for (const auto& stage : seen.stages)
    if (stage.name == "fuse") before_fusion = stage.before.statements;
  for (const auto& stage : seen.stages)
    table.add({model, stage.name, fmt::format("{:.3f}", stage.milliseconds),
               std::to_string(stage.before.nodes), std::to_string(stage.after.nodes),
               std::to_string(stage.after.statements), std::to_string(stage.after.groups),
               std::to_string(stats.statements), std::to_string(before_fusion), std::to_string(stats.kernels),
               std::to_string(seen.arena_bytes), std::to_string(seen.workspace_bytes),
               known(seen.op_by_op_bytes.value_or(-1))});
  return table;
}

MetricTable fusion_table(const std::string& model, const Ledger& ledger) {
  MetricTable table("fusion", {"model", "outcome", "category", "pairs", "bytes"});
  struct Sum {
    size_t pairs = 0;
    double bytes = 0;
  };
  std::map<std::pair<std::string, std::string>, Sum> sums;
  Sum tried;
  for (const auto& record : ledger.records()) {
    if (record.kind != "fusion") continue;
    for (auto* sum : {&tried, &sums[{record.outcome, record.category}]}) {
      ++sum->pairs;
      sum->bytes += record.score;
    }
  }
  const auto add = [&](const std::string& outcome, const std::string& category, const Sum& sum) {
    table.add({model, outcome, category, std::to_string(sum.pairs), fmt::format("{:.0f}", sum.bytes)});
  };
  add("tried", {}, tried);
  for (const auto& [key, sum] : sums) add(key.first, key.second, sum);
  return table;
}

using PeaksOfDevices = std::vector<std::optional<Peaks>>;

PeaksOfDevices peaks_of(const runtime::Executable& executable) {
  PeaksOfDevices peaks;
  for (const auto& device : executable.devices) peaks.push_back(load_peaks(*device, executable.workers));
  return peaks;
}

MetricTable statement_table(const std::string& model, const Observation& seen,
                            const runtime::Executable& executable) {
  MetricTable table("statement", {"model", "provenance", "category", "size_hints", "reduced_sizes",
                                  "argument_bytes", "moved_bytes", "operations", "estimate_us"});
  const auto peaks = peaks_of(executable);
  for (const auto& [provenance, facts, device] : seen.unfused)
    table.add({model, provenance, facts.category, sizes_text(facts.sizes), sizes_text(facts.reduced),
               std::to_string(facts.argument_bytes), std::to_string(facts.moved_bytes),
               fmt::format("{:.0f}", facts.operations), estimate_text(estimate(facts, peaks[device]))});
  return table;
}

MetricTable kernel_table(const std::string& model, const Observation& seen,
                         const runtime::Executable& executable, const std::string& texts) {
  MetricTable table("kernel", {"model",
                               "kernel",
                               "candidate",
                               "provenance",
                               "category",
                               "size_hints",
                               "reduced_sizes",
                               "reduction_hint",
                               "loads",
                               "stores",
                               "loops",
                               "atomics",
                               "argument_bytes",
                               "argument_size",
                               "operations",
                               "estimate_us",
                               "registers",
                               "spills",
                               "shared_memory_bytes",
                               "workspace_bytes",
                               "launches",
                               "launches_at_load",
                               "text"});
  const auto peaks = peaks_of(executable);
  const auto launches = [&](const std::vector<runtime::Launch>& steps, size_t kernel) {
    size_t count = 0;
    for (const auto& step : steps)
      count += step.copy == runtime::no_copy && !step.call.function && step.kernel == kernel;
    return std::to_string(count);
  };
  for (size_t k = 0; k < seen.kernels.size(); ++k) {
    const auto& kernel = seen.kernels[k];
    const auto& facts = kernel.facts;
    table.add({model,
               kernel.entry,
               kernel.candidate,
               kernel.provenance,
               facts.category,
               sizes_text(facts.sizes),
               sizes_text(facts.reduced),
               facts.reduction_hint,
               std::to_string(facts.loads),
               std::to_string(facts.stores),
               std::to_string(facts.loops),
               std::to_string(facts.atomics),
               std::to_string(facts.argument_bytes),
               bytes_text(facts.argument_bytes),
               fmt::format("{:.0f}", facts.operations),
               estimate_text(estimate(facts, peaks[executable.kernels[k].device])),
               known(kernel.registers),
               known(kernel.spills),
               known(kernel.shared_bytes),
               std::to_string(executable.kernels[k].workspace_bytes),
               launches(executable.steps, k),
               launches(executable.init, k),
               texts.empty() ? "" : (std::filesystem::path(texts) / (kernel.entry + ".fe")).string()});
  }
  return table;
}

MetricTable cache_table(const std::string& model, const cache::Counts& counts) {
  MetricTable table("cache", {"model", "outcome", "reason", "kernels"});
  table.add({model, "hit", {}, std::to_string(counts.hits)});
  if (counts.misses.empty()) table.add({model, "miss", {}, "0"});
  for (const auto& [reason, count] : counts.misses) table.add({model, "miss", reason, std::to_string(count)});
  for (const auto& [reason, count] : counts.bypasses)
    table.add({model, "bypass", reason, std::to_string(count)});
  for (const auto& [reason, count] : counts.faults)
    table.add({model, "fault", reason, std::to_string(count)});
  return table;
}

MetricTable selection_table(const std::string& model, const Observation& seen) {
  MetricTable table("selection",
                    {"model", "kernel", "provenance", "device", "provider", "candidate", "by", "candidates",
                     "cost_us", "measured_us", "usual_candidate", "usual_measured_us"});
  const auto measured = [](double seconds) {
    return seconds > 0 ? fmt::format("{:.3f}", seconds * 1e6) : std::string("unknown");
  };
  for (const auto& taken : seen.selections) {
    const auto& decision = taken.decision;
    // Where cost decided, the cost's choice is the candidate itself; otherwise it is compared only if both
    // were measured.
    const auto& usual = decision.by == "cost" ? decision.candidate : decision.usual;
    table.add({model, taken.entry, taken.provenance, taken.device, decision.provider, decision.candidate,
               decision.by, std::to_string(taken.candidates), fmt::format("{:.3f}", decision.cost * 1e6),
               measured(decision.seconds), usual.empty() ? "unknown" : usual,
               measured(decision.usual_seconds)});
  }
  return table;
}

}  // namespace

std::string bytes_text(int64_t bytes) {
  if (bytes < 1000) return fmt::format("{} B", bytes);
  auto value = static_cast<double>(bytes);
  for (const char* unit : {"kB", "MB", "GB"}) {
    value /= 1000;
    if (value < 999.95) return fmt::format("{:.1f} {}", value, unit);
  }
  return fmt::format("{:.1f} TB", value / 1000);
}

Result<void> check_metric_table(std::string_view name) {
  if (std::ranges::find(table_names, name) != table_names.end()) return {};
  return error(FE_EINVALID, "FE-C09", "there is no metric table '{}'; the tables are {}{}", name,
               fmt::join(table_names, ", "), did_you_mean(name, table_names));
}

std::vector<MetricTable> metric_tables(const std::function<bool(std::string_view)>& wanted,
                                       const MetricSource& source) {
  // Each table is built only if it is requested.
  const auto model = [&] { return std::string(source.model); };
  std::vector<MetricTable> result;
  if (wanted("graph")) result.push_back(graph_table(model(), source.seen, source.compilation.stats));
  if (wanted("fusion")) result.push_back(fusion_table(model(), source.ledger));
  if (wanted("cache")) result.push_back(cache_table(model(), source.compilation.stats.cache));
  if (wanted("selection")) result.push_back(selection_table(model(), source.seen));
  if (wanted("statement") && source.compilation.executable)
    result.push_back(statement_table(model(), source.seen, *source.compilation.executable));
  if (wanted("kernel") && source.compilation.executable)
    result.push_back(kernel_table(model(), source.seen, *source.compilation.executable, source.texts));
  return result;
}

}  // namespace ferrite::core::observe
