// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// ferrite report: one page about a compilation and its runs.
#include <algorithm>
#include <filesystem>
#include <map>

#include "ferrite/counted.hpp"
#include "tools/cli/inputs.h"
#include "tools/cli/running.h"
#include "tools/observe/report_html.h"

namespace ferrite::cli {
namespace {

using core::observe::bytes_text;
using html::escape;

struct Options {
  std::string model, output = "report.html";
  int64_t repeat = 20;
  PipelineOptions pipeline;
  DeviceOptions device;
  InputOptions inputs;
  CheckPassesOptions check;
};

constexpr int warm_up_runs = 2;
constexpr size_t most_listed = 500;  // of pairs and applications: more is for `ferrite explain`

/// A kernel of the program, or a function that a plugin gave: all launches of it in a run.
struct Row {
  std::vector<std::string> names;  ///< model nodes of each launch
  const core::observe::Kernel* kernel = nullptr;
  double seconds = 0;  ///< of a run: the sum of its launches' medians
  std::optional<double> floor;
  bool memory = false;  ///< the floor is the memory's
};

/// What the page is made from.
struct Seen {
  const core::observe::Observation& observation;
  const core::Program& program;
  std::vector<core::LedgerRecord> records;
  std::vector<Row> rows;  ///< those that take longest first
  std::optional<core::observe::Peaks> peaks;
  double run_seconds = 0, kernel_seconds = 0;
  std::string model, device;
  core::CompileStats unobserved;  ///< of a compilation that nobody watched
};

double median(std::vector<double> values) {
  std::ranges::sort(values);
  const size_t middle = values.size() / 2;
  return values.size() % 2 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

std::vector<Row> rows_of(const core::runtime::Executable& executable, const core::observe::Observation& seen,
                         std::span<const double> step_seconds,
                         const std::optional<core::observe::Peaks>& peaks) {
  std::vector<Row> rows;
  std::map<std::string, size_t> numbers;
  for (size_t k = 0; k < executable.steps.size(); ++k) {
    const auto& step = executable.steps[k];
    const bool kernel = step.copy == core::runtime::no_copy && !step.call.function;
    const auto key = step.copy != core::runtime::no_copy ? "copy"
                     : kernel                            ? fmt::format("kernel {}", step.kernel)
                                                         : fmt::format("call {}", step.call.name);
    const auto [found, added] = numbers.try_emplace(key, rows.size());
    if (added) rows.emplace_back();
    auto& row = rows[found->second];
    row.names.push_back(step.copy != core::runtime::no_copy ? "copy between memories" : step.provenance);
    row.seconds += step_seconds[k];
    if (kernel && step.kernel < seen.kernels.size()) row.kernel = &seen.kernels[step.kernel];
  }
  for (auto& row : rows) {
    if (!row.kernel) continue;
    row.floor = core::observe::estimate(row.kernel->facts, peaks);
    if (row.floor) *row.floor *= static_cast<double>(row.names.size());
    row.memory = peaks && core::observe::bound_by_memory(row.kernel->facts, *peaks);
  }
  std::ranges::stable_sort(rows, std::greater<>(), &Row::seconds);
  return rows;
}

/// The first nodes of a long list; the rest stands with the launches.
std::string shortened(const std::string& names) {
  constexpr size_t most = 90;  // bytes
  if (names.size() <= most) return names;
  size_t end = names.rfind(',', most);
  if (end == std::string::npos) end = most;
  while (end > 0 && (static_cast<unsigned char>(names[end]) & 0xC0) == 0x80) --end;  // not inside a character
  return names.substr(0, end) + ", …";
}

/// " and 11 like it": equal layers of a model are one kernel.
std::string others_of(const Row& row) {
  return row.names.size() == 1 ? std::string() : fmt::format(" and {} like it", row.names.size() - 1);
}

std::string tile(std::string_view figure, std::string_view text) {
  return fmt::format("<div class=\"tile\"><b>{}</b><span>{}</span></div>\n", escape(figure), escape(text));
}

std::string summary(const Seen& seen) {
  const auto& stats = seen.program.compilation.stats;
  double floor = 0, estimated = 0;
  for (const auto& row : seen.rows)
    if (row.floor) {
      floor += *row.floor;
      estimated += row.seconds;
    }
  std::string text = "<div class=\"tiles\">\n";
  text += tile(html::time_text(seen.run_seconds), "one run, median");
  if (seen.peaks && estimated > 0)
    text += tile(fmt::format("{:.0f} %", 100 * floor / estimated), "of the roofline, all kernels together");
  text += tile(fmt::format("{}", stats.kernels), kernels_text(stats));
  text += tile(fmt::format("{} to {}", stats.nodes, stats.statements), "nodes imported, statements lowered");
  text +=
      tile(html::time_text(seen.unobserved.compile_ms * 1e-3),
           fmt::format(
               "compiled as `ferrite run` does, {} from the cache; {} for this page, with texts and listings",
               counted(seen.unobserved.cache.hits, "kernel"), html::time_text(stats.compile_ms * 1e-3)));
  text += tile(bytes_text(seen.observation.arena_bytes),
               fmt::format("between kernels; {} without reuse", bytes_text(seen.observation.buffer_bytes)));
  return text + "</div>\n";
}

std::string sizes_text(const std::vector<int64_t>& sizes) {
  return sizes.empty() ? "1" : fmt::format("{}", fmt::join(sizes, " × "));
}

/// What is known of a kernel, below its row.
std::string details_of(const Row& row) {
  if (!row.kernel) return {};
  const auto& [entry, provenance, candidate, facts, kernel_text, listing, registers, spills, shared] =
      *row.kernel;
  std::string facts_text = fmt::format(
      "{} over {}{}; {}, {}, {}, {} atomic; {} in arguments, at most {} moved; {} "
      "operations; "
      "made by {}",
      facts.category, sizes_text(facts.sizes),
      facts.reduced.empty()
          ? std::string()
          : fmt::format(", {} reduced{}", sizes_text(facts.reduced),
                        facts.reduction_hint.empty() ? "" : " (" + facts.reduction_hint + ")"),
      counted(facts.loads, "load"), counted(facts.stores, "store"), counted(facts.loops, "loop"),
      facts.atomics, bytes_text(facts.argument_bytes), bytes_text(facts.moved_bytes),
      html::count_text(facts.operations), candidate.empty() ? "-" : candidate);
  if (registers >= 0) facts_text += fmt::format("; {}", counted(registers, "register"));
  if (spills >= 0) facts_text += fmt::format("; {}", counted(spills, "spill"));
  if (shared > 0) facts_text += fmt::format("; {} of shared memory", bytes_text(shared));
  return fmt::format(
      "<details><summary>what it computes, and its code</summary><p><code>{}</code>: "
      "{}</p>\n{}{}{}</details>",
      escape(entry), escape(facts_text),
      row.names.size() > 1 ? html::folded("Its launches", fmt::format("{}", fmt::join(row.names, "\n")))
                           : std::string(),
      html::folded("What it computes", kernel_text), html::folded("Its code", listing));
}

std::string kernels(const Seen& seen) {
  std::string text =
      "<h2 id=\"kernels\">Kernels</h2>\n<p>Each kernel of a run, the longest first. <b>Time</b> is that of "
      "all its "
      "launches in one run, the median over the runs. <b>Floor</b> is the least time that this machine needs "
      "for its "
      "operations and bytes (the roofline), <b>of floor</b> how much of the measured time that is: 100 % is "
      "as "
      "fast as it can be, and more says that the machine was busy when its peaks were measured. Open a "
      "kernel to see what it "
      "computes and its code.</p>\n";
  if (!seen.peaks)
    text +=
        "<p class=\"note\">Floors are unknown: this device was not measured with so many threads. "
        "<code>ferrite targets --measure</code> does that once, and takes some seconds; later compilations "
        "decide by it too.</p>\n";
  text +=
      "<div class=\"wide\"><table><thead><tr><th class=\"n\">#</th><th class=\"n\">time</th><th "
      "class=\"n\">share</th>"
      "<th>nodes of the model</th><th>kind</th><th class=\"n\">launches</th><th class=\"n\">GB/s</th>"
      "<th class=\"n\">GFLOP/s</th><th class=\"n\">floor</th><th class=\"n\">of floor</th><th>bound by</th>"
      "</tr></thead>\n<tbody>\n";
  for (size_t k = 0; k < seen.rows.size(); ++k) {
    const auto& row = seen.rows[k];
    const double share = seen.kernel_seconds > 0 ? row.seconds / seen.kernel_seconds : 0;
    const auto rate = [&](double amount) {
      return row.kernel && row.seconds > 0
                 ? fmt::format("{:.1f}", amount * static_cast<double>(row.names.size()) / row.seconds * 1e-9)
                 : std::string("-");
    };
    text += fmt::format(
        "<tr class=\"first\"><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{:.1f} %<span "
        "class=\"share\">"
        "<i style=\"width:{:.1f}%\"></i></span></td><td "
        "class=\"name\">{}</td><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td "
        "class=\"n\">{}</td>",
        k + 1, html::time_text(row.seconds), 100 * share, 100 * share,
        escape(shortened(row.names.front()) + others_of(row)),
        escape(row.kernel ? row.kernel->facts.category : "call"), row.names.size(),
        rate(row.kernel ? static_cast<double>(row.kernel->facts.moved_bytes) : 0),
        rate(row.kernel ? row.kernel->facts.operations : 0));
    text += fmt::format(
        "<td class=\"n\">{}</td><td class=\"n\">{}</td><td>{}</td></tr>\n",
        row.floor ? html::time_text(*row.floor) : "unknown",
        row.floor && row.seconds > 0 ? fmt::format("{:.0f} %", 100 * *row.floor / row.seconds) : "-",
        !row.floor   ? "-"
        : row.memory ? "memory"
                     : "operations");
    text += fmt::format("<tr class=\"more\"><td></td><td colspan=\"10\">{}</td></tr>\n", details_of(row));
  }
  return text + "</tbody></table></div>\n";
}

std::string roofline(const Seen& seen) {
  if (!seen.peaks) return {};
  std::vector<html::RooflinePoint> points;
  for (size_t k = 0; k < seen.rows.size(); ++k) {
    const auto& row = seen.rows[k];
    if (!row.kernel || row.seconds <= 0 || row.kernel->facts.moved_bytes == 0) continue;
    const double operations = row.kernel->facts.operations;
    points.push_back({k + 1, operations / static_cast<double>(row.kernel->facts.moved_bytes),
                      operations * static_cast<double>(row.names.size()) / row.seconds,
                      row.seconds / seen.kernel_seconds, row.names.front()});
  }
  return "<h2 id=\"roofline\">Roofline</h2>\n<p>Each circle is a kernel of the table above, the larger the "
         "more time it takes. The slopes are what memory and the fastest cache deliver, the flat part what "
         "the "
         "machine computes. Far below a line there is something to gain.</p>\n" +
         html::roofline(points, *seen.peaks);
}

/// "+1 gelu, −5 erf"
std::string changes_of(const core::observe::Sizes& before, const core::observe::Sizes& after) {
  if (after.nodes == 0) return {};
  std::map<std::string, int64_t> changes;
  for (const auto& [op, count] : after.ops) changes[op] += static_cast<int64_t>(count);
  for (const auto& [op, count] : before.ops) changes[op] -= static_cast<int64_t>(count);
  std::vector<std::string> parts;
  for (const auto& [op, change] : changes)
    if (change != 0) parts.push_back(fmt::format("{}{} {}", change > 0 ? "+" : "−", std::abs(change), op));
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string stages(const Seen& seen) {
  std::string text =
      "<h2 id=\"stages\">Stages</h2>\n<p>The model's way from graph to kernels: how large the program was "
      "after each stage, "
      "which operations came and went, and the program as text where the stage changed it. Times are those "
      "of the compilation for this page: emit has the listings of code in it.</p>\n"
      "<div class=\"wide\"><table><thead><tr><th>stage</th><th class=\"n\">time</th><th "
      "class=\"n\">nodes</th>"
      "<th class=\"n\">statements</th><th class=\"n\">groups</th><th>what "
      "changed</th></tr></thead>\n<tbody>\n";
  const auto count = [](size_t value) { return value == 0 ? std::string() : std::to_string(value); };
  for (const auto& stage : seen.observation.stages)
    text += fmt::format(
        "<tr><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td "
        "class=\"n\">{}</td>"
        "<td class=\"name\">{}{}</td></tr>\n",
        escape(stage.name), html::time_text(stage.milliseconds * 1e-3), count(stage.after.nodes),
        count(stage.after.statements), count(stage.after.groups),
        escape(changes_of(stage.before, stage.after)), html::folded("the program after it", stage.text));
  return text + "</tbody></table></div>\n";
}

/// A table of groups of records: how many, and each of them where it is opened.
struct Listed {
  std::string first, second;  ///< cells before the count
  size_t count = 0;
  double score = 0;
  std::string lines;
};
void list(Listed& into, const std::string& text) {
  if (++into.count <= most_listed) into.lines += text + "\n";
  if (into.count == most_listed + 1) into.lines += "... `ferrite explain` lists all\n";
}

std::string fusion(const Seen& seen) {
  std::map<std::pair<std::string, std::string>, Listed> sums;
  for (const auto& record : seen.records) {
    if (record.kind != "fusion") continue;
    auto& sum = sums[{record.outcome, record.category}];
    sum.score += record.score;
    list(sum, fmt::format("{}  ->  {}{}{}", record.subject, record.object, record.text.empty() ? "" : ": ",
                          record.text));
  }
  std::string text =
      "<h2 id=\"fusion\">Fusion</h2>\n<p>Pairs of statements that share a buffer were tried, those that "
      "share most bytes "
      "first. A fused pair saves the way through memory; a refused one is a place where the program could "
      "become "
      "faster, or where fusing it would be wrong or dearer.</p>\n";
  if (sums.empty())
    return text + "<p class=\"note\">No two statements share a buffer, or fusion is off.</p>\n";
  text +=
      "<div class=\"wide\"><table><thead><tr><th>outcome</th><th>why</th><th class=\"n\">pairs</th>"
      "<th class=\"n\">shared</th><th>which</th></tr></thead>\n<tbody>\n";
  for (const auto& [key, sum] : sums)
    text += fmt::format(
        "<tr><td>{}</td><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td "
        "class=\"name\">{}</td></tr>\n",
        escape(key.first), escape(key.second), sum.count, bytes_text(static_cast<int64_t>(sum.score)),
        html::folded("pairs", sum.lines));
  return text + "</tbody></table></div>\n";
}

std::string memory(const Seen& seen) {
  std::string text = fmt::format(
      "<h2 id=\"memory\">Memory</h2>\n<p>What lives between kernels shares one arena of {}: each rectangle "
      "is a buffer, from "
      "the launch that writes it to the last one that reads it. Grey is where workers keep what they work "
      "on, {} "
      "of it. Without reuse all would be {}{}. Inputs, outputs and "
      "weights have memory of their own.</p>\n",
      bytes_text(seen.observation.arena_bytes), bytes_text(seen.observation.workspace_bytes),
      bytes_text(seen.observation.buffer_bytes),
      seen.observation.op_by_op_bytes
          ? fmt::format("; results of a kernel for each op, {}", bytes_text(*seen.observation.op_by_op_bytes))
          : std::string());
  if (seen.observation.memory.empty()) return text + "<p class=\"note\">Nothing lives between kernels.</p>\n";
  return text + html::memory_map(seen.observation);
}

std::string rules(const Seen& seen) {
  std::map<std::pair<std::string, std::string>, Listed> sums;
  for (const auto& record : seen.records)
    if (record.kind == "rule")
      list(sums[{record.subject, record.outcome}], fmt::format("{}: {}", record.object, record.text));
  std::string text =
      "<h2 id=\"rules\">Rules</h2>\n<p>Rewrites of the graph that matched. <code>ferrite explain MODEL "
      "--near-misses</code> "
      "tells where rules nearly matched, and what was missing.</p>\n";
  if (sums.empty()) return text + "<p class=\"note\">No rule matched.</p>\n";
  text +=
      "<div class=\"wide\"><table><thead><tr><th>rule</th><th>outcome</th><th "
      "class=\"n\">times</th><th>where</th>"
      "</tr></thead>\n<tbody>\n";
  for (const auto& [key, sum] : sums)
    text += fmt::format(
        "<tr><td class=\"name\">{}</td><td>{}</td><td class=\"n\">{}</td><td class=\"name\">{}</td></tr>\n",
        escape(key.first), escape(key.second), sum.count, html::folded("places", sum.lines));
  return text + "</tbody></table></div>\n";
}

std::string page(const Seen& seen) {
  const auto name = std::filesystem::path(seen.model).filename().string();
  return html::head(name + " - ferrite report") +
         fmt::format("<h1>{}</h1>\n<p>on {}, {}; {}</p>\n", escape(name), escape(seen.device),
                     counted(seen.program.compilation.executable->workers, "thread"), version_text()) +
         "<nav><a href=\"#kernels\">Kernels</a>" + (seen.peaks ? "<a href=\"#roofline\">Roofline</a>" : "") +
         "<a href=\"#stages\">Stages</a><a href=\"#fusion\">Fusion</a><a href=\"#memory\">Memory</a>"
         "<a href=\"#rules\">Rules</a></nav>\n" +
         summary(seen) + kernels(seen) + roofline(seen) + stages(seen) + fusion(seen) + memory(seen) +
         rules(seen) + html::tail();
}

/// What a compilation of the model takes that nobody watches: texts of stages and listings of code may take
/// many times as long.
Result<core::CompileStats> compile_unobserved(const Options& options) {
  FE_TRY(auto opened, open_model(options.pipeline, options.device, options.model));
  FE_TRY(const auto inputs, make_inputs(*opened.model, options.inputs));
  FE_TRY(const auto runner, Runner::make(opened, inputs));
  return runner.program().compilation.stats;
}

Result<void> report_on(const Options& options) {
  Progress progress("loading " + options.model);
  core::observe::Observation observation;
  observation.texts = true;
  FE_TRY(auto opened,
         open_model(options.pipeline, options.device, options.model, options.check, &observation));
  if (opened.compile.device == core::runtime::interpreter_name)
    return error(FE_EINVALID, "FE-C01",
                 "the interpreter has no kernels to report on; name a device with --device");
  opened.compile.listings = true;
  FE_TRY(auto inputs, make_inputs(*opened.model, options.inputs));
  progress.update("compiling " + options.model);
  FE_TRY(auto unobserved, compile_unobserved(options));
  FE_TRY(auto runner, Runner::make(opened, inputs));
  report(opened.check.get());
  for (int k = 0; k < warm_up_runs; ++k) FE_CHECK(runner.run(inputs));
  std::vector<double> runs;
  std::vector<std::vector<double>> steps;
  for (int64_t k = 0; k < options.repeat; ++k) {
    if (k % 10 == 0) progress.update(fmt::format("run {} of {}", k + 1, options.repeat));
    const auto start = core::observe::Clock::now();
    FE_TRY(const auto times, runner.time(inputs));
    runs.push_back(std::chrono::duration<double>(core::observe::Clock::now() - start).count());
    steps.resize(times.size());
    for (size_t s = 0; s < times.size(); ++s)
      steps[s].push_back(std::chrono::duration<double>(times[s].end - times[s].start).count());
  }
  progress.update("");
  const auto& executable = *runner.program().compilation.executable;
  std::vector<double> medians;
  for (auto& times : steps) medians.push_back(median(std::move(times)));
  const auto& device = *executable.devices.back();
  Seen seen{observation, runner.program(), runner.program().ledger.records(), {}, {}, median(runs), 0, {}, {},
            {}};
  seen.peaks = core::observe::load_peaks(device, executable.workers);
  seen.rows = rows_of(executable, observation, medians, seen.peaks);
  for (const double seconds : medians) seen.kernel_seconds += seconds;
  seen.model = options.model;
  seen.unobserved = std::move(unobserved);
  seen.device = fmt::format("{}:{} ({})", device.kind, device.number, device.name);
  FE_CHECK(write_text(options.output, page(seen)));
  fmt::print(
      "wrote {}: {} {}, {} a run{}\n", options.output, seen.program.compilation.stats.kernels,
      kernels_text(seen.program.compilation.stats), html::time_text(seen.run_seconds),
      seen.peaks
          ? ""
          : "; run `ferrite targets --measure` once to see how far kernels are from the roofline (later "
            "compilations decide by what it measures)");
  return {};
}

}  // namespace

Run add_report(CLI::App& command) {
  auto options = std::make_shared<Options>();
  command.add_option("model", options->model, "The model's file (.onnx, .fe)")
      ->required()
      ->type_name("MODEL");
  command.add_option("-o,--output", options->output, "The page's file; report.html")
      ->type_name("FILE")
      ->check(not_empty);
  command.add_option("--repeat", options->repeat, "Runs that are timed, after two that are not")
      ->type_name("N")
      ->capture_default_str()
      ->check(CLI::Range(int64_t{1}, int64_t{10000}));
  options->inputs.add_to(command);
  options->device.add_to(command);
  options->pipeline.add_to(command);
  options->check.add_to(command);
  return [options] {
    auto done = report_on(*options);
    return done ? 0 : report(done.error());
  };
}

}  // namespace ferrite::cli
