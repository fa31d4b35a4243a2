// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// ferrite explain: the decision ledger of a compilation.
#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "core/schedule/fusion/unconsidered_pairs.h"
#include "core/support/split.h"
#include "core/support/suggest.h"
#include "driver/compile_for.h"
#include "driver/target_names.h"
#include "ferrite/counted.hpp"
#include "tools/cli/commands/explain_rules.h"
#include "tools/cli/commands/explain_summary.h"
#include "tools/cli/inputs.h"
#include "tools/cli/running.h"
#include "tools/observe/wording.h"

namespace ferrite::cli {
namespace {

struct ExplainOptions {
  std::string model;
  std::vector<std::string> why_not;   // two nodes, or nothing
  std::string rule;                   // of --near-misses; "" = all
  std::string target;                 // "" = this machine
  std::vector<std::string> sections;  // of the ledger
  bool near_misses = false, applied = false, layouts = false, placement = false, all = false, json = false;
  size_t limit = 20;
  PipelineOptions pipeline;
  DeviceOptions device;
  InputOptions inputs;
  CheckPassesOptions check;

  /// Nothing of the ledger is asked for.
  bool summary() const {
    return !near_misses && !applied && !layouts && !placement && !all && !json && why_not.empty() &&
           sections.empty();
  }
};

/// Whether a list of node names, "Conv_3, Relu_4", has this one.
bool names_node(std::string_view list, std::string_view node) {
  const auto names = names_in(list);
  return std::ranges::find(names, node) != names.end();
}

void collect_names(std::string_view list, std::vector<std::string>& names) {
  for (const auto name : names_in(list))
    if (std::ranges::find(names, name) == names.end()) names.emplace_back(name);
}

/// Whether it says where a kernel runs in the end.
bool is_run(const core::LedgerRecord& record) {
  return record.kind == "placement" && record.outcome == "runs";
}

/// A list of nodes, of which a long one ends with how many more there are.
std::string shortened(const std::string& list) {
  constexpr size_t most = 6, shown = 4;
  const auto count = static_cast<size_t>(std::ranges::count(list, ',')) + 1;
  if (count <= most) return list;
  size_t end = 0;
  for (size_t k = 0; k < shown; ++k) end = list.find(',', end + (k > 0 ? 1 : 0));
  return fmt::format("{} and {} more", list.substr(0, end), count - shown);
}

/// A record's score with its unit, which the kind says; empty where there is none, or the text has it.
std::string score_text(const core::LedgerRecord& record) {
  if (record.score == 0 || is_run(record)) return {};
  if (record.kind == "pass") return time_text(record.score * 1e-3);
  if (record.kind == "rule") return counted(static_cast<uint64_t>(record.score), "time");
  if (record.kind == "placement") return counted(static_cast<uint64_t>(record.score), "copy", "copies");
  if (record.kind == "record") return counted(static_cast<uint64_t>(record.score), "launch", "launches");
  if (record.kind == "parts") return count_text(record.score) + " points";
  for (const std::string_view costs : {"candidate", "select", "claim"})
    if (record.kind == costs && record.category != "memory") return time_text(record.score);
  return size_text(static_cast<uint64_t>(record.score));
}

std::string line_of(const core::LedgerRecord& record) {
  const bool placed = record.kind == "placement" || record.kind == "transfer";
  std::string text = record.outcome;
  if (!record.category.empty()) text += " (" + record.category + ")";
  if (!record.subject.empty()) text += "  " + (placed ? shortened(record.subject) : record.subject);
  if (!record.object.empty()) text += (record.kind == "inline" ? "  into  " : "  <-  ") + record.object;
  if (!record.text.empty()) text += ": " + record.text;
  if (const auto figure = score_text(record); !figure.empty()) text += "  [" + figure + "]";
  return text;
}

/// The model's nodes that statements come from. A kernel's object is its candidate and its text its hash: no
/// nodes.
std::vector<std::string> nodes_of(const std::vector<core::LedgerRecord>& records) {
  std::vector<std::string> names;
  for (const auto& record : records) {
    const bool pair = record.kind == "fusion" || record.kind == "inline";
    if (pair || record.kind == "kernel") collect_names(record.subject, names);
    if (pair) collect_names(record.object, names);
  }
  return names;
}

Result<void> check_pair(const std::vector<core::LedgerRecord>& records,
                        const std::vector<std::string>& pair) {
  const auto names = nodes_of(records);
  for (const auto& node : pair)
    if (std::find(names.begin(), names.end(), node) == names.end()) {
      std::vector<std::string_view> views(names.begin(), names.end());
      return core::at("--why-not",
                      error(FE_EINVALID, "FE-C08",
                            "no statement comes from a node '{}': it was folded, removed or never there{}",
                            node, core::did_you_mean(node, views)));
    }
  if (pair[0] == pair[1])
    return core::at("--why-not",
                    error(FE_EINVALID, "FE-C08", "'{}' is given twice; name two nodes", pair[0]));
  return {};
}

/// The decisions about two nodes, in either order: inlining, fusions, and the kernels that they ended in.
Result<std::vector<core::LedgerRecord>> records_of_pair(const std::vector<core::LedgerRecord>& records,
                                                        const std::vector<std::string>& pair) {
  FE_CHECK(check_pair(records, pair));
  const auto &a = pair[0], &b = pair[1];
  std::vector<core::LedgerRecord> tried, both, apart;
  for (const auto& record : records) {
    const auto &from = record.subject, &to = record.object;
    const bool of_a = names_node(from, a), of_b = names_node(from, b);
    if (record.kind == "fusion" || record.kind == "inline") {
      if ((of_a && names_node(to, b)) || (of_b && names_node(to, a))) tried.push_back(record);
    } else if (record.kind == "kernel" && (of_a || of_b)) {
      (of_a && of_b ? both : apart).push_back(record);
    }
  }
  const auto& kernels = both.empty() ? apart : both;
  tried.insert(tried.end(), kernels.begin(), kernels.end());
  return tried;
}

/// Whether two nodes share no kernel, and there is no record of both: fusion considered no pair of them.
bool is_unconsidered(const std::vector<core::LedgerRecord>& found, const std::vector<std::string>& pair) {
  return std::ranges::all_of(found, [&](const auto& record) {
    return record.kind == "kernel" &&
           !(names_node(record.subject, pair[0]) && names_node(record.subject, pair[1]));
  });
}

/// Why fusion considered no pair of two nodes. The ledger would need a record for every pair there is, so the
/// program that fusion began with is made again and asked.
Result<core::LedgerRecord> unconsidered(const OpenModel& opened, std::span<const std::vector<int64_t>> dims,
                                        const std::vector<std::string>& pair) {
  core::CompileOptions options = opened.compile;
  options.to = "pre_fusion";
  options.watcher = nullptr;  // it has seen these passes
  core::Ledger ledger;
  FE_TRY(auto graph, opened.model->graph(dims));
  FE_TRY(const auto made, core::compile(std::move(graph), opened.session->registry(), options, ledger));
  core::schedule::NodeStatements nodes[] = {{pair[0], {}}, {pair[1], {}}};
  const auto& statements = made.program->statements;
  for (auto& [name, all] : nodes)
    for (uint32_t s = 0; s < statements.size(); ++s)
      if (names_node(core::schedule::origin_names(statements[s]), name)) all.push_back(s);
  auto [category, text, bytes] =
      core::schedule::why_unconsidered(*made.program, options.without, nodes[0], nodes[1]);
  return core::LedgerRecord{"fusion",
                            pair[0],
                            pair[1],
                            "unconsidered",
                            std::string(category),
                            std::move(text),
                            static_cast<double>(bytes)};
}

/// The decisions about two nodes, or the reason why there are none.
Result<std::vector<core::LedgerRecord>> explain_pair(const OpenModel& opened,
                                                     std::span<const std::vector<int64_t>> dims,
                                                     const std::vector<core::LedgerRecord>& records,
                                                     const std::vector<std::string>& pair) {
  FE_TRY(auto found, records_of_pair(records, pair));
  if (is_unconsidered(found, pair)) {
    FE_TRY(auto why, unconsidered(opened, dims, pair));
    found.insert(found.begin(), std::move(why));
  }
  return found;
}

void print_pair(const std::vector<core::LedgerRecord>& found, const std::vector<std::string>& pair) {
  const auto &a = pair[0], &b = pair[1];
  for (const auto& record : found) {
    const bool of_a = names_node(record.subject, a);
    if (record.outcome == "unconsidered")
      fmt::print("no fusion of {} and {} was considered: {}\n", a, b, record.text);
    else if (record.kind != "kernel")
      fmt::print("{}: {}\n", record.kind, line_of(record));
    else if (of_a && names_node(record.subject, b))
      fmt::print("kernel: one holds both: {}\n", line_of(record));
    else
      fmt::print("kernel: {} is in another: {}\n", of_a ? a : b, line_of(record));
  }
}

bool has_section(const std::vector<core::LedgerRecord>& records, std::string_view kind) {
  return std::ranges::any_of(records, [&](const auto& record) { return record.kind == kind; });
}

/// The records of a section after their number by outcome.
void print_section(const std::vector<core::LedgerRecord>& records, std::string_view kind) {
  fmt::print("{}\n", counts_text(records, kind));
  for (const auto& record : records)
    if (record.kind == kind) fmt::print("  {}\n", line_of(record));
}

/// All records by kind, in the order of the first one of each.
void print_records(const std::vector<core::LedgerRecord>& records) {
  std::vector<std::string> kinds;
  for (const auto& record : records)
    if (std::ranges::find(kinds, record.kind) == kinds.end()) kinds.push_back(record.kind);
  for (const auto& kind : kinds) print_section(records, kind);
}

/// Of the ledger what says where things run in the end, and what is copied for that.
bool is_of_placement(const core::LedgerRecord& record) {
  return is_run(record) || record.kind == "transfer" || record.kind == "claim";
}

void print_placement(const std::vector<core::LedgerRecord>& records, const core::Compilation& compilation) {
  if (!compilation.executable) {
    fmt::print("placement: all runs in the interpreter\n");
    return;
  }
  const auto& devices = compilation.executable->devices;
  if (devices.size() == 1) {
    fmt::print("placement: all runs on {}:{}, the only device\n", devices[0]->kind, devices[0]->number);
    if (has_section(records, "claim")) print_section(records, "claim");
    return;
  }
  std::vector<std::string> parts;
  for (const auto& device : devices) {
    const auto name = fmt::format("{}:{}", device->kind, device->number);
    const auto groups = std::ranges::count_if(
        records, [&](const auto& record) { return record.kind == "placement" && record.object == name; });
    parts.push_back(fmt::format("{} on {}", groups, name));
  }
  for (const std::string_view when : {"", "at load"}) {
    size_t copies = 0;
    uint64_t bytes = 0;
    for (const auto& record : records)
      if (record.kind == "transfer" && record.category == when) {
        ++copies;
        bytes += static_cast<uint64_t>(record.score);
      }
    parts.push_back(fmt::format("{} of {} {}", counted(copies, "copy", "copies"), counted(bytes, "byte"),
                                when.empty() ? "in a run" : when));
  }
  fmt::print("kernels: {}\n", fmt::join(parts, ", "));
  print_records(records);
}

/// Prints the applications of rules, or, on request, their near misses.
Result<void> explain_rules(const ExplainOptions& options, OpenModel& opened,
                           std::span<const std::vector<int64_t>> dims) {
  const auto& registry = opened.session->registry();
  core::rewrite::NearMisses misses(options.rule, options.limit);
  if (options.near_misses) {
    FE_CHECK(check_rule_name(registry, options.rule));
    opened.compile.near_misses = &misses;
  }
  opened.compile.to = "pre_lower";  // the last stage with rules
  FE_TRY(auto program, opened.model->program(dims, opened.compile));
  const auto records = program->ledger.records();
  if (options.near_misses)
    print_near_misses(registry, misses, options.rule, records, options.json);
  else
    print_applied(registry, records, options.limit, options.json);
  return {};
}

/// Keeps the records that the options ask for.
void keep_wanted(const ExplainOptions& options, std::vector<core::LedgerRecord>& records) {
  if (options.layouts) {
    std::erase_if(records, [](const auto& record) { return record.kind != "layout"; });
  } else if (options.placement) {
    std::erase_if(records, [](const auto& record) { return !is_of_placement(record); });
  } else if (!options.sections.empty()) {
    std::erase_if(records, [&](const auto& record) {
      return std::ranges::find(options.sections, record.kind) == options.sections.end();
    });
  }
}

Result<void> explain(const ExplainOptions& options) {
  Progress progress("compiling " + options.model);
  PipelineOptions pipeline = options.pipeline;
  if (!options.target.empty()) {
    if (const auto count = core::runtime::target_names(options.target).size(); count > 1)
      return core::at("--target " + options.target,
                      error(FE_EINVALID, "FE-D24", "{} targets; explain one at a time", count));
    pipeline.targets.push_back(options.target);
  }
  core::observe::Observation observation;
  FE_TRY(
      auto opened,
      open_model(
          pipeline, options.device, options.model, options.check, options.summary() ? &observation : nullptr,
          "; --target, as in --target sm_90a, explains what is compiled for a device that is not here"));
  opened.compile.recompile = true;  // a package keeps no ledger: its graph is compiled anew
  if (!options.target.empty()) {
    const core::TargetName target{options.target, "--target " + options.target};
    FE_TRY(opened.compile, core::options_for(target, opened.compile, opened.session->registry()));
  }
  FE_TRY(auto dims, resolve_dims(*opened.model, options.inputs));
  if (options.near_misses || options.applied) {
    auto shown = explain_rules(options, opened, dims);
    if (shown) report(opened.check.get());
    return shown;
  }
  FE_TRY(auto program, opened.model->program(dims, opened.compile));
  progress.update("");
  report(opened.check.get());
  auto records = program->ledger.records();
  if (!options.why_not.empty()) {
    FE_TRY(records, explain_pair(opened, dims, records, options.why_not));
  }
  if (options.json) {
    keep_wanted(options, records);
    fmt::print("{}\n", core::ledger_json(records));
    return {};
  }
  if (!options.why_not.empty()) {
    print_pair(records, options.why_not);
    return {};
  }
  if (options.layouts) {
    if (has_section(records, "layout"))
      print_section(records, "layout");
    else
      fmt::print("layout: every buffer has its dims in the order of the graph\n");
    return {};
  }
  if (options.placement) {
    keep_wanted(options, records);
    print_placement(records, program->compilation);
    return {};
  }
  for (const auto& section : options.sections) print_section(records, section);
  if (options.all) print_records(records);
  if (options.all) fmt::print("{}\n", stats_text(program->compilation.stats));
  if (options.summary())
    fmt::print("{}", Summary{options.model, program->compilation, observation, records}.text());
  return {};
}

/// Empty where there is such a section, as CLI11 wants it.
std::string is_section(const std::string& name) {
  std::vector<std::string_view> kinds;
  for (const auto& section : sections) kinds.push_back(section.kind);
  if (std::ranges::find(kinds, name) != kinds.end()) return {};
  return fmt::format("there is no section '{}'; there are {}{}", name, fmt::join(kinds, ", "),
                     core::did_you_mean(name, kinds));
}

}  // namespace

Run add_explain(CLI::App& command) {
  auto options = std::make_shared<ExplainOptions>();
  command
      .add_option("model", options->model,
                  model_help + std::string("; a package keeps no ledger, its graph is compiled again"))
      ->required()
      ->type_name("MODEL");
  std::vector<std::string_view> kinds;
  for (const auto& section : sections) kinds.push_back(section.kind);
  auto* section =
      command
          .add_option("--section", options->sections,
                      fmt::format("The records of these sections of the ledger, in place of the summary: a "
                                  "comma-separated list of {}",
                                  fmt::join(kinds, ", ")))
          ->type_name("NAME,...")
          ->delimiter(',')
          ->check(is_section)
          ->allow_extra_args(false);
  auto* all = command.add_flag("--all", options->all, "The records of all sections, in place of the summary");
  auto* why_not = command
                      .add_option("--why-not", options->why_not,
                                  "Only the decisions about fusing these two nodes of the model")
                      ->type_name("NODE_A NODE_B")
                      ->expected(2);
  auto* applied = command.add_flag("--applied", options->applied, "The rules that were applied, and where");
  auto* near_misses =
      command
          .add_option(
              "--near-misses", options->rule,
              "Where rules, or this one, nearly matched: the term that failed, and the node in its place; "
              "after MODEL")
          ->type_name("[RULE]")
          ->expected(0, 1);
  auto* layouts = command.add_flag("--layouts", options->layouts,
                                   "The buffers whose dims are stored in another order or whose rows are "
                                   "padded, and where values change from one "
                                   "order to the other");
  auto* placement = command.add_flag("--placement", options->placement,
                                     "The device of each kernel with the reason, and the copies between "
                                     "the devices' memories");
  why_not->excludes(applied)->excludes(near_misses)->excludes(layouts)->excludes(placement);
  applied->excludes(near_misses)->excludes(layouts)->excludes(placement);
  layouts->excludes(near_misses)->excludes(placement);
  placement->excludes(near_misses);
  for (auto* of_ledger : {section, all})
    of_ledger->excludes(why_not)
        ->excludes(applied)
        ->excludes(near_misses)
        ->excludes(layouts)
        ->excludes(placement);
  section->excludes(all);
  command
      .add_option(
          "--target", options->target,
          "The target to compile for, whose device need not be here: a name, as sm_90a, or as its backend "
          "describes it. Without it, this machine")
      ->type_name("TARGET")
      ->check(not_empty);
  command
      .add_option("--limit", options->limit,
                  "The most near misses, or applications of each rule, that are shown; 20")
      ->type_name("N")
      ->check(CLI::Range(size_t{1}, size_t{1000000}));
  command.add_flag("--json", options->json,
                   "The whole ledger, or the part that was asked for, as a JSON list");
  options->inputs.add_to(command);
  options->device.add_to(command);
  options->pipeline.add_to(command);
  options->check.add_to(command);
  return [options, near_misses] {
    options->near_misses = near_misses->count() > 0;
    auto done = explain(*options);
    return done ? 0 : report(done.error());
  };
}

}  // namespace ferrite::cli
