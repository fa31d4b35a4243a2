// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// ferrite opt: runs any span of stages over a model or a text of any stage; the result is text.
#include <algorithm>
#include <filesystem>
#include <variant>

#include "core/support/files/weights.h"
#include "core/support/suggest.h"
#include "runtime/device.h"
#include "tools/cli/inputs.h"
#include "tools/cli/running.h"

namespace ferrite::cli {
namespace {

struct OptOptions {
  std::string model, from, to;
  std::vector<std::string> passes;
  PipelineOptions pipeline;
  DeviceOptions device;
  InputOptions inputs;
  CheckPassesOptions check;
};

/// The loop program, the schedule or the kernel in a text; nothing where the file has a graph or is no text.
Result<std::optional<core::Source>> read_lowered(const core::Session& session, const OptOptions& options) {
  const std::filesystem::path path(options.model);
  if (path.extension() != ".fe") return std::optional<core::Source>();
  auto file = core::graph::MappedFile::open(options.model);
  if (!file) return std::optional<core::Source>();  // opening the model reports the reason
  const auto bytes = (*file)->bytes();
  core::graph::ParseOptions parse;
  parse.file = options.model;
  parse.weight_folder = path.parent_path().string();
  parse.registry = &session.registry().ops();
  FE_TRY(auto source, core::parse_source({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, parse));
  if (std::holds_alternative<core::graph::Graph>(source)) return std::optional<core::Source>();
  for (const auto& [option, given] :
       {std::pair{"-i", !options.inputs.files.empty()}, std::pair{"--dim", !options.inputs.dims.empty()}})
    if (given)
      return core::at(option, error(FE_EINVALID, "FE-C01", "the sizes of a text after 'lower' are fixed"));
  return std::optional(std::move(source));
}

/// The input of the stages: the text, or the model's graph for the given dims.
Result<core::Source> read_source(const core::Session& session, const OptOptions& options) {
  FE_TRY(auto lowered, read_lowered(session, options));
  if (lowered) return core::Source(std::move(*lowered));
  FE_TRY(auto model, core::Model::open(session, options.model));
  FE_TRY(auto dims, resolve_dims(*model, options.inputs));
  FE_TRY(auto graph, model->graph(dims));
  return core::Source(std::move(graph));
}

/// Checks that each is a pass, or PASS#RULE.
Result<void> check_passes(const core::plugin::Registry& registry, const std::vector<std::string>& wanted) {
  std::vector<std::string_view> names;
  for (const auto& pass : registry.passes()) names.push_back(pass.name);
  for (const auto& name : wanted) {
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    const size_t mark = std::min(name.rfind('#'), name.size());
    const auto pass = std::string_view(name).substr(0, mark);
    std::vector<std::string_view> rules;
    for (const auto& entry : registry.passes())
      if (entry.name == pass) rules.insert(rules.end(), entry.rules.begin(), entry.rules.end());
    if (rules.empty() || mark == name.size())
      return core::at("--pass " + name,
                      error(FE_EINVALID, "FE-C07", "no plugin has such a pass; there are {}{}",
                            fmt::join(names, ", "), core::did_you_mean(name, names)));
    const std::string wanted_rule = name.substr(mark + 1);
    if (std::find(rules.begin(), rules.end(), wanted_rule) == rules.end())
      return core::at("--pass " + name,
                      error(FE_EINVALID, "FE-C07", "the pass '{}' has no such rule; it has {}{}", pass,
                            fmt::join(rules, ", "), core::did_you_mean(wanted_rule, rules)));
  }
  return {};
}

Result<void> opt(const OptOptions& options) {
  FE_TRY(auto pipeline, options.pipeline.read(options.device.device));
  auto compile = options.device.compile_options(pipeline);
  FE_TRY(auto session, core::Session::open(pipeline));
  // Stages before `fuse` need no device, but a given name must be a device's.
  if (!options.device.device.empty())
    FE_CHECK(core::runtime::check_devices(options.device.device, session->registry()));
  FE_CHECK(check_passes(session->registry(), options.passes));
  FE_TRY(auto source, read_source(*session, options));
  compile.from = options.from;
  compile.to = options.to;
  if (options.to.empty()) compile.to = compile.device == core::runtime::interpreter_name ? "lower" : "emit";
  compile.only_passes = options.passes;
  const auto check = options.check.make(*session);
  compile.watcher = check.get();
  core::Ledger ledger;
  FE_TRY(auto compilation, core::compile(std::move(source), session->registry(), compile, ledger));
  report(check.get());
  fmt::print("{}", compilation.text());
  return {};
}

}  // namespace

Run add_opt(CLI::App& command) {
  auto options = std::make_shared<OptOptions>();
  command.add_option("model", options->model, model_help + std::string(", or the text of a stage (.fe)"))
      ->required()
      ->type_name("MODEL");
  command
      .add_option("--from", options->from,
                  "The first stage to run; without it the first that the text enters")
      ->type_name("STAGE");
  command.add_option("--to", options->to, "The last stage to run; its result is printed")->type_name("STAGE");
  command
      .add_option(
          "--pass", options->passes,
          "Run this pass only, of all passes of the stages, or one of its rules: PASS#RULE; may be repeated")
      ->type_name("NAME")
      ->allow_extra_args(false);
  options->inputs.add_to(command);
  options->device.add_to(command);
  options->pipeline.add_to(command);
  options->check.add_to(command);
  command.footer(fmt::format("Stages, in their order:\n  {}", fmt::join(core::stages(), " ")));
  return [options] {
    auto done = opt(*options);
    return done ? 0 : report(done.error());
  };
}

}  // namespace ferrite::cli
