// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tools/cli/commands/explain_summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "core/ir/stages.h"
#include "core/support/split.h"
#include "ferrite/counted.hpp"
#include "tools/cli/running.h"
#include "tools/observe/wording.h"

namespace ferrite::cli {
namespace {

constexpr size_t most_lines = 40, columns = 110, label_columns = 12;
constexpr size_t most_kernels = 8, most_categories = 3;

using Lines = std::vector<std::string>;

/// "memory     arena 3.1 MiB, ...". Text that does not fit continues on lines below, indented like the text.
void add_field(Lines& lines, std::string_view label, std::string_view text) {
  const auto all = wrapped(fmt::format("{:<{}}{}", label, label_columns, text), columns, label_columns);
  for (const auto line : core::split(all, '\n')) lines.emplace_back(line);
}

/// The stages of a compilation and the parts of `emit`, grouped into phases that users know.
std::string_view phase_of(std::string_view stage) {
  if (stage == "select" || stage == "tune") return "selection";
  if (stage == "emit" || stage == "code") return "code";
  if (stage == "load" || stage == "plan" || stage == "link") return "load and link";
  if (stage == "lower") return "lowering";
  const auto* const row = std::ranges::find(core::stage_table, stage, &core::StageInfo::name);
  return row->form == core::Form::graph ? "graph passes" : "scheduling";
}

std::string phases_text(const core::observe::Observation& seen, double init_ms) {
  std::vector<std::pair<std::string_view, double>> phases;
  const auto add = [&](std::string_view name, double milliseconds) {
    const auto found = std::ranges::find(phases, name, &std::pair<std::string_view, double>::first);
    if (found == phases.end())
      phases.emplace_back(name, milliseconds);
    else
      found->second += milliseconds;
  };
  // Linking includes the preparation of constants, which has its own time.
  for (const auto& stage : seen.stages)
    add(phase_of(stage.name), stage.milliseconds - (stage.name == "link" ? init_ms : 0));
  std::vector<std::string> parts;
  for (const auto& [name, milliseconds] : phases)
    parts.push_back(fmt::format("{} {:.1f} ms", name, std::max(milliseconds, 0.0)));
  auto text = fmt::format("{}", fmt::join(parts, ", "));
  return init_ms >= 0.05 ? text + fmt::format("; constants prepared in {:.1f} ms", init_ms) : text;
}

template <class Ports>
uint64_t bytes_of(const Ports& ports) {
  uint64_t bytes = 0;
  for (const auto& port : ports) bytes += static_cast<uint64_t>(port.bytes);
  return bytes;
}

std::string memory_text(const core::runtime::Executable& executable, const core::observe::Observation& seen) {
  const auto size = [](int64_t bytes) {
    return size_text(static_cast<uint64_t>(std::max<int64_t>(bytes, 0)));
  };
  auto text = fmt::format("{} between kernels", size(seen.arena_bytes));
  if (seen.buffer_bytes > seen.arena_bytes)
    text += fmt::format(" ({} without reuse)", size(seen.buffer_bytes));
  if (seen.workspace_bytes > 0) text += fmt::format(", {} of it workspace", size(seen.workspace_bytes));
  return text + fmt::format(", constants {}, inputs {}, outputs {}",
                            size_text(bytes_of(executable.constants)), size_text(bytes_of(executable.inputs)),
                            size_text(bytes_of(executable.outputs)));
}

/// A kernel, or a function of a plugin, with all its launches of a run.
struct Row {
  std::string kind, names;
  size_t launches = 0;
  std::optional<double> seconds;  ///< of all its launches, by the cost model
};

std::vector<Row> rows_of(const core::runtime::Executable& executable,
                         const core::observe::Observation& seen) {
  std::map<std::pair<std::string_view, std::string_view>, double> costs;  // by nodes and candidate
  for (const auto& taken : seen.selections)
    costs[{taken.provenance, taken.decision.candidate}] = taken.decision.cost;
  std::vector<Row> rows;
  std::map<std::string, size_t> numbers;
  for (const auto& step : executable.steps) {
    if (step.copy != core::runtime::no_copy) continue;
    const bool call = step.call.function != nullptr;
    const auto key = call ? "call " + step.call.name : std::to_string(step.kernel);
    const auto [found, added] = numbers.try_emplace(key, rows.size());
    if (added) {
      auto& row = rows.emplace_back();
      row.kind = call                                ? "call"
                 : step.kernel < seen.kernels.size() ? seen.kernels[step.kernel].facts.category
                                                     : "";
      row.names = step.provenance;
    }
    auto& row = rows[found->second];
    ++row.launches;
    if (call) continue;
    const auto& kernel = executable.kernels[step.kernel];
    if (const auto cost = costs.find({kernel.provenance, kernel.candidate}); cost != costs.end())
      row.seconds = row.seconds.value_or(0) + cost->second;
  }
  std::ranges::stable_sort(rows, std::greater<>(), [](const Row& row) { return row.seconds.value_or(-1); });
  return rows;
}

/// The largest kernels, at most `most`.
void add_kernels(Lines& lines, const std::vector<Row>& rows, size_t most) {
  if (rows.empty() || most == 0) return;
  lines.emplace_back();
  double all = 0;
  for (const auto& row : rows) all += row.seconds.value_or(0);
  lines.push_back(fmt::format("kernels by estimated time, {} a run by the cost model of the code generator",
                              time_text(all)));
  lines.emplace_back("     time    share  launches  kind      nodes of the model");
  const size_t shown = std::min(rows.size(), most);
  for (size_t k = 0; k < shown; ++k) {
    const auto& row = rows[k];
    lines.push_back(fmt::format("{:>9}  {:>7}  {:>8}  {:<8}  {}",
                                row.seconds ? time_text(*row.seconds) : "unknown",
                                row.seconds ? share_text(*row.seconds, all) : "-", row.launches, row.kind,
                                shortened_names(row.names, columns - 40)));
  }
  if (shown < rows.size()) lines.push_back(fmt::format("           and {} more", rows.size() - shown));
}

/// "51 fused, 92 refused (84 contraction, 5 different element count, 2 broadcast and 1 more)"
std::string decisions_text(const std::vector<core::LedgerRecord>& records, std::string_view kind) {
  std::map<std::string_view, std::map<std::string_view, size_t>> outcomes;
  for (const auto& record : records)
    if (record.kind == kind) ++outcomes[record.outcome][record.category];
  std::vector<std::pair<size_t, std::string>> parts;
  for (const auto& [outcome, categories] : outcomes) {
    size_t count = 0;
    std::vector<std::pair<size_t, std::string_view>> reasons;
    for (const auto& [category, times] : categories) {
      count += times;
      if (!category.empty()) reasons.emplace_back(times, category);
    }
    std::ranges::stable_sort(reasons, std::greater<>(), &std::pair<size_t, std::string_view>::first);
    auto text = fmt::format("{} {}", count, outcome);
    if (!reasons.empty()) {
      std::vector<std::string> shown;
      size_t rest = 0;
      for (const auto& [times, category] : reasons)
        if (shown.size() < most_categories)
          shown.push_back(fmt::format("{} {}", times, category));
        else
          rest += times;
      text +=
          fmt::format(" ({}{})", fmt::join(shown, ", "), rest > 0 ? fmt::format(" and {} more", rest) : "");
    }
    parts.emplace_back(count, std::move(text));
  }
  std::ranges::stable_sort(parts, std::greater<>(), &std::pair<size_t, std::string>::first);
  std::string text;
  for (const auto& [count, part] : parts) text += (text.empty() ? "" : ", ") + part;
  return text;
}

std::string device_text(const core::Compilation& compilation) {
  if (!compilation.executable) return "the interpreter";
  std::vector<std::string> names;
  for (const auto& device : compilation.executable->devices)
    names.push_back(device->name.empty() ? device->place()
                                         : fmt::format("{} ({})", device->place(), device->name));
  return fmt::format("{}, {}", fmt::join(names, ", "), counted(compilation.executable->workers, "thread"));
}

}  // namespace

std::string counts_text(const std::vector<core::LedgerRecord>& records, std::string_view kind) {
  std::map<std::string, size_t> counts;
  for (const auto& record : records)
    if (record.kind == kind)
      ++counts[record.category.empty() ? record.outcome : record.outcome + ", " + record.category];
  std::vector<std::string> parts;
  for (const auto& [outcome, count] : counts) parts.push_back(fmt::format("{} {}", count, outcome));
  return fmt::format("{}: {}", kind, parts.empty() ? "none" : fmt::format("{}", fmt::join(parts, "; ")));
}

std::string Summary::text() const {
  const auto& stats = compilation.stats;
  Lines lines;
  add_field(lines, "model", model);
  add_field(lines, "device", device_text(compilation));
  add_field(lines, "program",
            fmt::format("{}, {}, {} {}", counted(stats.nodes, "node"), counted(stats.statements, "statement"),
                        stats.kernels, kernels_text(stats)));
  add_field(lines, "compiled",
            fmt::format("in {:.1f} ms: {}", stats.compile_ms, phases_text(seen, stats.init_ms)));
  if (stats.cache.hits > 0)
    add_field(
        lines, "cache",
        fmt::format("{} found, {} compiled", counted(stats.cache.hits, "kernel"), stats.cache.missed()));
  if (compilation.executable) add_field(lines, "memory", memory_text(*compilation.executable, seen));

  std::vector<std::string_view> kinds;
  for (const auto& section : sections) kinds.push_back(section.kind);
  for (const auto& record : records)
    if (std::ranges::find(kinds, record.kind) == kinds.end()) kinds.push_back(record.kind);
  Lines decisions;
  for (const auto kind : kinds)
    if (const auto text = decisions_text(records, kind); !text.empty())
      decisions.push_back(
          "  " + shortened_names(fmt::format("{:<{}}{}", kind, label_columns - 2, text), columns - 2));
  Lines hints;
  if (!decisions.empty())
    hints = {
        "--section NAME,... lists the records of these decisions, --all those of every section",
        "--why-not NODE_A NODE_B tells why two nodes do not share a kernel; see also --placement, --layouts,",
        "--applied, --near-misses"};

  if (compilation.executable) {
    // Empty lines, headings and the line about kernels that are not shown take six lines.
    const size_t taken = lines.size() + decisions.size() + hints.size() + 6;
    add_kernels(lines, rows_of(*compilation.executable, seen),
                std::min(most_kernels, most_lines - std::min(most_lines, taken)));
  }
  if (!decisions.empty()) {
    lines.emplace_back();
    lines.emplace_back("decisions");
    lines.insert(lines.end(), decisions.begin(), decisions.end());
    lines.emplace_back();
    lines.insert(lines.end(), hints.begin(), hints.end());
  }
  return fmt::format("{}\n", fmt::join(lines, "\n"));
}

}  // namespace ferrite::cli
