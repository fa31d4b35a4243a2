// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// ferrite ops: the registered ops, and the ops of other formats that importers and other plugins read.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "core/plugin/import_ops.h"
#include "core/support/abi/abi.h"
#include "runtime/plugin/serialised_calls.h"
#include "tools/cli/common.h"

namespace ferrite::cli {
namespace {

struct OpsOptions {
  PipelineOptions pipeline;
  bool json = false;
  bool onnx = false;
};

/// An op of a format, and the plugin that reads it, if any.
struct Coverage {
  std::string op, versions, state, by;
  std::string when;  ///< where another one is asked first: the condition under which this one is asked
};

constexpr std::string_view handler_text = "import handler of ";

/// The importer's own report on each op of its format.
Result<std::vector<Coverage>> coverage_of(const core::plugin::Registry& registry,
                                          const core::plugin::Contributed<fe_importer>& entry) {
  std::vector<Coverage> result;
  const auto& importer = *entry.table;
  if (!importer.coverage) return result;
  core::abi::Call call;
  core::abi::Collector<> text;
  auto args = core::abi::sized<fe_none>();
  auto sink = text.sink();
  int32_t status = core::plugin::invoke(importer, importer.coverage, call, &args, &sink);
  if (status != FE_OK) return call.error(status, "FE-I05", "the importer does not say what it covers");
  std::string_view rest = text.bytes();
  while (!rest.empty()) {
    auto line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    if (line.empty()) continue;
    auto first = std::min(line.find('\t'), line.size());
    auto second = std::min(line.find('\t', std::min(first + 1, line.size())), line.size());
    const auto state = line.substr(std::min(second + 1, line.size()));
    result.push_back(
        {std::string(line.substr(0, first)),
         std::string(line.substr(std::min(first + 1, line.size()), second - std::min(first + 1, second))),
         std::string(state),
         state == "supported" ? "built in, " + entry.plugin->id : std::string(),
         {}});
  }
  const auto format = core::abi::view(core::abi::read(&importer).format);
  if (format.empty()) return result;
  for (const auto& [source, reader] : core::plugin::readers_of(registry, format)) {
    std::string name = source.substr(format.size() + 1);
    for (size_t at = name.find("::"); at != std::string::npos; at = name.find("::")) name.replace(at, 2, ".");
    const auto by = reader.kind == FE_READER_HANDLER ? fmt::format("{}{}", handler_text, reader.plugin)
                    : reader.kind == FE_READER_ALIAS
                        ? fmt::format("alias of {}: {}", reader.plugin, reader.op)
                        : fmt::format("op of {}", reader.plugin);
    result.push_back(
        {std::move(name), core::plugin::versions_text(reader.first, reader.last), "supported", by, {}});
  }
  // The order is that of asking: plugins come before the importer.
  std::ranges::stable_sort(result, {},
                           [](const Coverage& c) { return std::pair(c.op, c.by.starts_with("built in")); });
  // Handlers of one op may be for different versions and may decline; an alias or an op reads all of its
  // nodes.
  for (size_t k = 1; k < result.size(); ++k) {
    const auto& before = result[k - 1];
    auto& entry = result[k];
    if (entry.op != before.op || entry.by.starts_with(handler_text)) continue;
    entry.when = before.by.starts_with(handler_text) ? "where no handler reads the node" : "never asked";
  }
  return result;
}

std::string signature(const core::graph::OpInfo& op) {
  std::vector<std::string> operands, attributes;
  for (const auto& operand : op.operands)
    operands.push_back(operand.name + (operand.variadic ? "..." : operand.optional ? "?" : ""));
  for (const auto& attribute : op.attributes)
    attributes.push_back(attribute.value.name + (attribute.required ? "" : "?"));
  auto text = fmt::format("{}({})", op.name, fmt::join(operands, ", "));
  return attributes.empty() ? text : fmt::format("{} {{{}}}", text, fmt::join(attributes, ", "));
}

std::string_view how(const core::graph::OpInfo& op) {
  if (op.def.lower) return "lowered";
  return op.def.decompose ? "decomposed" : "neither lowered nor decomposed";
}

Result<void> ops(const OpsOptions& options) {
  FE_TRY(auto pipeline, options.pipeline.read());
  FE_TRY(auto session, core::Session::open(pipeline));
  const auto& registry = session->registry();
  nlohmann::ordered_json report;
  if (!options.onnx) report["ops"] = nlohmann::ordered_json::array();
  report["importers"] = nlohmann::ordered_json::array();
  for (const auto* op : registry.ops().all()) {
    if (options.onnx) break;
    if (options.json)
      report["ops"].push_back({{"name", op->name},
                               {"plugin", op->plugin},
                               {"signature", signature(*op)},
                               {"how", how(*op)},
                               {"doc", op->doc}});
    else
      fmt::print("{:<60} {:<11} {}\n", signature(*op), how(*op), op->plugin);
  }
  for (const auto& importer : registry.importers()) {
    if (options.onnx && core::abi::view(core::abi::read(importer.table).format) != "onnx") continue;
    FE_TRY(auto coverage, coverage_of(registry, importer));
    auto id = std::string(core::abi::view(importer.table->id));
    std::set<std::string_view> all, supported;
    auto list = nlohmann::ordered_json::array();
    if (!options.json)
      fmt::print("{}{} ({}):\n", options.onnx ? "" : "\n", id, core::abi::view(importer.table->extensions));
    for (const auto& entry : coverage) {
      all.insert(entry.op);
      if (entry.state == "supported") supported.insert(entry.op);
      list.push_back({{"op", entry.op},
                      {"versions", entry.versions},
                      {"state", entry.state},
                      {"by", entry.by},
                      {"when", entry.when}});
      if (!options.json)
        fmt::print("  {:<38} {:<14} {}{}\n", entry.op, entry.versions,
                   entry.by.empty() ? entry.state : entry.by,
                   entry.when.empty() ? "" : fmt::format(" ({})", entry.when));
    }
    report["importers"].push_back({{"id", id}, {"coverage", list}});
    if (!options.json) fmt::print("{} of {} ops supported\n", supported.size(), all.size());
  }
  if (options.json)
    fmt::print("{}\n", report.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  return {};
}

}  // namespace

Run add_ops(CLI::App& command) {
  auto options = std::make_shared<OpsOptions>();
  command.add_flag("--json", options->json, "JSON instead of text");
  command.add_flag("--onnx", options->onnx,
                   "Only the ops of ONNX models, and the plugin that reads each of them");
  options->pipeline.add_to(command);
  return [options] {
    auto done = ops(*options);
    return done ? 0 : report(done.error());
  };
}

}  // namespace ferrite::cli
