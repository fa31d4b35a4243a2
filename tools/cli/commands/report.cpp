// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// ferrite report: one page about a compilation and its runs.
#include <algorithm>
#include <filesystem>
#include <map>

#include "ferrite/counted.hpp"
#include "tools/cli/inputs.h"
#include "tools/cli/running.h"
#include "tools/observe/report_graph.h"
#include "tools/observe/report_html.h"
#include "tools/observe/report_kernels.h"

namespace ferrite::cli {
namespace {

using html::escape;

struct ReportOptions {
  std::string model, output = "report.html";
  int64_t repeat = 20;
  PipelineOptions pipeline;
  DeviceOptions device;
  InputOptions inputs;
  CheckPassesOptions check;
};

constexpr int warm_up_runs = 2;
constexpr size_t most_listed = 500;  // of pairs and applications: more is for `ferrite explain`

/// The data of the page.
struct Seen {
  const core::observe::Observation& observation;
  const core::Program& program;
  std::vector<core::LedgerRecord> records;
  KernelTimes kernels;
  std::optional<core::observe::Peaks> peaks;
  Spread run{};  ///< of whole runs
  int64_t runs = 0;
  std::string model, device;
  core::CompileStats unobserved;  ///< of a compilation that nobody watched
};

std::string bytes_text(int64_t bytes) {
  return size_text(static_cast<uint64_t>(std::max<int64_t>(bytes, 0)));
}

std::string card(std::string_view figure, std::string_view text) {
  return fmt::format("<div class=\"card\"><b>{}</b><span>{}</span></div>\n", escape(figure), escape(text));
}

std::string summary(const Seen& seen) {
  const auto& stats = seen.program.compilation.stats;
  double floor = 0, estimated = 0;
  for (const auto& row : seen.kernels.rows)
    if (row.floor) {
      floor += *row.floor;
      estimated += row.time.median;
    }
  std::string text = "<div class=\"cards\">\n";
  text += card(time_text(seen.run.median), fmt::format("one run, the median of {}; quartiles {}", seen.runs,
                                                       range_text(seen.run.low, seen.run.high)));
  if (seen.peaks && estimated > 0)
    text += card(fmt::format("{:.0f} %", 100 * floor / estimated), "of the roofline, all kernels together");
  text += card(fmt::format("{}", stats.kernels), kernels_text(stats));
  text += card(fmt::format("{} to {}", stats.nodes, stats.statements), "nodes imported, statements lowered");
  text +=
      card(time_text(seen.unobserved.compile_ms * 1e-3),
           fmt::format("compiled, {} from the cache; {} with the texts and listings of this page",
                       counted(seen.unobserved.cache.hits, "kernel"), time_text(stats.compile_ms * 1e-3)));
  text += card(bytes_text(seen.observation.arena_bytes),
               fmt::format("between kernels; {} without reuse", bytes_text(seen.observation.buffer_bytes)));
  return text + "</div>\n";
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
      "<h2 id=\"stages\">Stages</h2>\n<p>The way of the model from graph to kernels: the size of the program "
      "after "
      "each stage, the operations that were added and removed, and the program as text where the stage "
      "changed "
      "it. Times are those of the compilation for this page: emit includes the listings of code.</p>\n"
      "<div class=\"wide\"><table><thead><tr><th>stage</th><th class=\"n\">time</th><th "
      "class=\"n\">nodes</th>"
      "<th class=\"n\">statements</th><th class=\"n\">groups</th><th>changes</th></tr></thead>\n<tbody>\n";
  const auto count = [](size_t value) { return value == 0 ? std::string() : std::to_string(value); };
  for (const auto& stage : seen.observation.stages)
    text += fmt::format(
        "<tr><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td "
        "class=\"n\">{}</td>"
        "<td class=\"name\">{}{}</td></tr>\n",
        escape(stage.name), time_text(stage.milliseconds * 1e-3), count(stage.after.nodes),
        count(stage.after.statements), count(stage.after.groups),
        escape(changes_of(stage.before, stage.after)), html::folded("program after this stage", stage.text));
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
  if (into.count == most_listed + 1) into.lines += "... `ferrite explain --section fusion,rule` lists all\n";
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
      "<div class=\"wide\"><table><thead><tr><th>outcome</th><th>reason</th><th class=\"n\">pairs</th>"
      "<th class=\"n\">shared</th><th>list</th></tr></thead>\n<tbody>\n";
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
      "<h2 id=\"memory\">Memory</h2>\n<p>Buffers between kernels share one arena of {}: each rectangle is a "
      "buffer, from the launch that writes it to the last one that reads it. Grey rectangles are workspaces, "
      "{} "
      "of it. Without reuse all buffers would take {}{}. Inputs, outputs and weights have memory of their "
      "own.</p>\n",
      bytes_text(seen.observation.arena_bytes), bytes_text(seen.observation.workspace_bytes),
      bytes_text(seen.observation.buffer_bytes),
      seen.observation.op_by_op_bytes
          ? fmt::format("; results of a kernel for each op, {}", bytes_text(*seen.observation.op_by_op_bytes))
          : std::string());
  if (seen.observation.memory.empty())
    return text + "<p class=\"note\">No buffer lives between kernels.</p>\n";
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
         "<a href=\"#graph\">Graph</a><a href=\"#stages\">Stages</a><a href=\"#fusion\">Fusion</a><a "
         "href=\"#memory\">Memory</a>"
         "<a href=\"#rules\">Rules</a></nav>\n" +
         summary(seen) + html::kernels(seen.kernels, seen.peaks) +
         html::roofline_section(seen.kernels, seen.peaks) +
         html::graphs(seen.observation.views, seen.kernels) + stages(seen) + fusion(seen) + memory(seen) +
         rules(seen) + html::tail();
}

/// The statistics of a compilation without an observer. With one, the texts of stages and the listings of
/// code take many times as long as the compilation.
Result<core::CompileStats> compile_unobserved(const ReportOptions& options) {
  FE_TRY(auto opened, open_model(options.pipeline, options.device, options.model));
  FE_TRY(const auto inputs, make_inputs(*opened.model, options.inputs));
  FE_TRY(const auto runner, Runner::make(opened, inputs));
  return runner.program().compilation.stats;
}

Result<void> report_on(const ReportOptions& options) {
  Progress progress("loading " + options.model);
  core::observe::Observation observation;
  observation.texts = observation.graphs = true;
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
  const auto& device = *executable.devices.back();
  Seen seen{.observation = observation,
            .program = runner.program(),
            .records = runner.program().ledger.records(),
            .kernels = {},
            .peaks = core::observe::load_peaks(device, executable.workers),
            .run = spread_of(std::move(runs)),
            .runs = options.repeat,
            .model = {},
            .device = {},
            .unobserved = {}};
  seen.kernels = kernel_times(executable, observation, steps, seen.peaks);
  seen.model = options.model;
  seen.unobserved = std::move(unobserved);
  seen.device = fmt::format("{}:{} ({})", device.kind, device.number, device.name);
  FE_CHECK(write_text(options.output, page(seen)));
  fmt::print(
      "wrote {}: {} {}, {} a run{}\n", options.output, seen.program.compilation.stats.kernels,
      kernels_text(seen.program.compilation.stats), time_text(seen.run.median),
      seen.peaks
          ? ""
          : "; run `ferrite targets --measure` once to see how far kernels are from the roofline (later "
            "compilations decide by what it measures)");
  return {};
}

}  // namespace

Run add_report(CLI::App& command) {
  auto options = std::make_shared<ReportOptions>();
  command.add_option("model", options->model, model_help)->required()->type_name("MODEL");
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
