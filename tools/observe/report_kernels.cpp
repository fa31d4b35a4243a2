// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tools/observe/report_kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "ferrite/counted.hpp"
#include "tools/observe/report_html.h"
#include "tools/observe/wording.h"

namespace ferrite::observe {
namespace {

using html::escape;

constexpr size_t name_columns = 90;

std::string bytes_text(int64_t bytes) {
  return size_text(static_cast<uint64_t>(std::max<int64_t>(bytes, 0)));
}

/// " and 11 like it": the layers of a model that run the same kernel share a row.
std::string others_of(const KernelRow& row) {
  return row.names.size() == 1 ? std::string() : fmt::format(" and {} like it", row.names.size() - 1);
}

std::string sizes_text(const std::vector<int64_t>& sizes) {
  return sizes.empty() ? "1" : fmt::format("{}", fmt::join(sizes, " × "));
}

/// The facts of a kernel, below its row.
std::string details_of(const KernelRow& row) {
  if (!row.kernel) return {};
  const auto& [entry, provenance, candidate, facts, kernel_text, listing, registers, spills, shared] =
      *row.kernel;
  std::string text = fmt::format(
      "{} over {}{}; {}, {}, {}, {} atomic; {} in arguments, at most {} moved; {} operations; made by {}",
      facts.category, sizes_text(facts.sizes),
      facts.reduced.empty()
          ? std::string()
          : fmt::format(", {} reduced{}", sizes_text(facts.reduced),
                        facts.reduction_hint.empty() ? "" : " (" + facts.reduction_hint + ")"),
      counted(facts.loads, "load"), counted(facts.stores, "store"), counted(facts.loops, "loop"),
      facts.atomics, bytes_text(facts.argument_bytes), bytes_text(facts.moved_bytes),
      count_text(facts.operations), candidate.empty() ? "-" : candidate);
  if (registers >= 0) text += fmt::format("; {}", counted(registers, "register"));
  if (spills >= 0) text += fmt::format("; {}", counted(spills, "spill"));
  if (shared > 0) text += fmt::format("; {} of shared memory", bytes_text(shared));
  return fmt::format(
      "<details><summary>nodes, loops and code</summary><p><code>{}</code>: {}</p>\n{}{}{}</details>",
      escape(entry), escape(text),
      html::folded(counted(row.names.size(), "launch", "launches"),
                   fmt::format("{}", fmt::join(row.names, "\n"))),
      html::folded("Loops", kernel_text), html::folded("Generated code", listing));
}

/// A table cell with a number: its label (shown where a narrow page displays rows as cards) and the value by
/// which the script sorts rows; rows without a value come last.
std::string figure(std::string_view label, std::optional<double> value, std::string_view text,
                   std::string_view more = {}) {
  return fmt::format("<td class=\"n\" data-label=\"{}\" data-value=\"{}\">{}{}</td>", label,
                     value ? fmt::format("{:.9g}", *value) : std::string(), escape(text), more);
}

std::string word(std::string_view label, std::string_view text, std::string_view kind = {}) {
  return fmt::format("<td{} data-label=\"{}\">{}</td>", kind, label, escape(text));
}

std::string row_text(size_t number, const KernelRow& row, double all) {
  const double seconds = row.time.median, launches = static_cast<double>(row.names.size());
  const auto rate = [&](std::string_view label, double amount) {
    if (!row.kernel || seconds <= 0) return figure(label, std::nullopt, "-");
    const double value = amount * launches / seconds * 1e-9;
    return figure(label, value, fmt::format("{:.1f}", value));
  };
  const std::string names = row.names.front() + others_of(row);
  std::string text = fmt::format("<tbody id=\"kernel-{}\"><tr class=\"first\">", number);
  text += fmt::format(
      "<td class=\"n\" data-label=\"#\" data-value=\"{0}\"><a href=\"#kernel-{0}\">{0}</a></td>", number);
  text += figure("time", seconds, time_text(seconds));
  text += figure("quartiles", row.time.high - row.time.low, range_text(row.time.low, row.time.high));
  text += figure("share", seconds, share_text(seconds, all),
                 fmt::format("<span class=\"share\"><i style=\"width:{:.1f}%\"></i></span>",
                             all > 0 ? 100 * seconds / all : 0));
  text += fmt::format("<td class=\"name\" data-label=\"nodes\" title=\"{}\">{}</td>", escape(names),
                      escape(shortened_names(row.names.front(), name_columns) + others_of(row)));
  text += word("kind", row.kernel ? row.kernel->facts.category : "call");
  text += figure("launches", launches, std::to_string(row.names.size()));
  text += rate("GB/s", row.kernel ? static_cast<double>(row.kernel->facts.moved_bytes) : 0);
  text += rate("GFLOP/s", row.kernel ? row.kernel->facts.operations : 0);
  text += figure("floor", row.floor, row.floor ? time_text(*row.floor) : "unknown");
  const bool known = row.floor && seconds > 0;
  text += figure("of floor", known ? std::optional(*row.floor / seconds) : std::nullopt,
                 known ? fmt::format("{:.0f} %", 100 * *row.floor / seconds) : "-");
  text += word("bound by", !row.floor ? "-" : row.memory ? "memory" : "operations");
  return text +
         fmt::format("</tr>\n<tr class=\"more\"><td colspan=\"12\">{}</td></tr></tbody>\n", details_of(row));
}

}  // namespace

Spread spread_of(std::vector<double> values) {
  std::ranges::sort(values);
  const auto at = [&](double part) {
    const double place = part * static_cast<double>(values.size() - 1);
    const auto before = static_cast<size_t>(place);
    const size_t after = std::min(before + 1, values.size() - 1);
    return std::lerp(values[before], values[after], place - std::floor(place));
  };
  return {at(0.25), at(0.5), at(0.75)};
}

KernelTimes kernel_times(const core::runtime::Executable& executable, const core::observe::Observation& seen,
                         std::span<const std::vector<double>> times,
                         const std::optional<core::observe::Peaks>& peaks) {
  struct Sum {
    KernelRow row;
    std::vector<double> runs;  // seconds of all launches of each run
    size_t number;
  };
  std::vector<Sum> sums;
  std::vector<size_t> launches;
  std::map<std::string, size_t> numbers;
  for (size_t k = 0; k < executable.steps.size(); ++k) {
    const auto& step = executable.steps[k];
    const bool copy = step.copy != core::runtime::no_copy, kernel = !copy && !step.call.function;
    const auto key = copy     ? "copy"
                     : kernel ? fmt::format("kernel {}", step.kernel)
                              : fmt::format("call {}", step.call.name);
    const auto [found, added] = numbers.try_emplace(key, sums.size());
    if (added) sums.push_back({{}, std::vector<double>(times[k].size()), sums.size()});
    auto& sum = sums[found->second];
    sum.row.names.push_back(copy ? "copy between memories"
                                 : fmt::format("{}", fmt::join(names_in(step.provenance), ", ")));
    for (size_t run = 0; run < times[k].size(); ++run) sum.runs[run] += times[k][run];
    if (kernel && step.kernel < seen.kernels.size()) sum.row.kernel = &seen.kernels[step.kernel];
    if (!copy) launches.push_back(found->second);
  }
  KernelTimes result;
  for (auto& sum : sums) {
    sum.row.time = spread_of(std::move(sum.runs));
    result.seconds += sum.row.time.median;
    if (!sum.row.kernel) continue;
    sum.row.floor = core::observe::estimate(sum.row.kernel->facts, peaks);
    if (sum.row.floor) *sum.row.floor *= static_cast<double>(sum.row.names.size());
    sum.row.memory = peaks && core::observe::bound_by_memory(sum.row.kernel->facts, *peaks);
  }
  std::ranges::stable_sort(sums, std::greater<>(), [](const Sum& sum) { return sum.row.time.median; });
  std::vector<size_t> places(sums.size());
  for (size_t place = 0; place < sums.size(); ++place) places[sums[place].number] = place;
  for (auto& sum : sums) result.rows.push_back(std::move(sum.row));
  for (const size_t number : launches) result.rows_of_launches.push_back(places[number]);
  return result;
}

namespace html {

std::string kernels(const KernelTimes& kernels, const std::optional<core::observe::Peaks>& peaks) {
  std::string text =
      "<h2 id=\"kernels\">Kernels</h2>\n<p>Each kernel of a run, the longest first. <b>Time</b> is that of "
      "all "
      "its launches in one run, the median over the runs; <b>quartiles</b> is the range of the middle half "
      "of "
      "the runs. <b>Floor</b> is the least time that this machine needs for the kernel's operations and "
      "bytes "
      "(the roofline); a convolution by Winograd's algorithm has the operations of that algorithm. <b>Of "
      "floor</b> is the floor divided by the time: 100 % is as fast as the machine can be, and more says "
      "that "
      "the machine was busy when its peaks were measured. Click on a heading to sort.</p>\n";
  if (kernels.rows.empty()) return text + "<p class=\"note\">A run launches no kernel.</p>\n";
  if (!peaks)
    text +=
        "<p class=\"note\">Floors are unknown: this device was not measured with so many threads. "
        "<code>ferrite targets --measure</code> does that once, and takes some seconds; later compilations "
        "decide by it too.</p>\n";
  text +=
      "<div class=\"wide\"><table class=\"sorts\"><thead><tr><th class=\"n\">#</th><th class=\"n\">time</th>"
      "<th class=\"n\">quartiles</th><th class=\"n\">share</th><th>nodes of the model</th><th>kind</th>"
      "<th class=\"n\">launches</th><th class=\"n\">GB/s</th><th class=\"n\">GFLOP/s</th>"
      "<th class=\"n\">floor</th><th class=\"n\">of floor</th><th>bound by</th></tr></thead>\n";
  for (size_t k = 0; k < kernels.rows.size(); ++k) text += row_text(k + 1, kernels.rows[k], kernels.seconds);
  return text + "</table></div>\n";
}

std::string roofline_section(const KernelTimes& kernels, const std::optional<core::observe::Peaks>& peaks) {
  if (!peaks) return {};
  std::vector<RooflinePoint> points;
  for (size_t k = 0; k < kernels.rows.size(); ++k) {
    const auto& row = kernels.rows[k];
    const double seconds = row.time.median;
    if (!row.kernel || seconds <= 0 || row.kernel->facts.moved_bytes == 0) continue;
    const double operations = row.kernel->facts.operations;
    points.push_back({k + 1, operations / static_cast<double>(row.kernel->facts.moved_bytes),
                      operations * static_cast<double>(row.names.size()) / seconds, seconds / kernels.seconds,
                      row.names.front()});
  }
  return "<h2 id=\"roofline\">Roofline</h2>\n<p>Each circle is a kernel of the table above: the larger, the "
         "more time it takes. The slopes are the rates of the memory and of the fastest cache, the flat part "
         "is the machine's rate of operations. A kernel far below a line can become faster.</p>\n" +
         roofline(points, *peaks);
}

}  // namespace html
}  // namespace ferrite::observe
