// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// ferrite compile: compiles a model into one file that runs elsewhere.
#include "driver/target_names.h"
#include "ferrite/counted.hpp"
#include "runtime/package/package.h"
#include "tools/cli/inputs.h"
#include "tools/cli/running.h"

namespace ferrite::cli {
namespace {

struct CompileOptions {
  std::string model, output;
  std::vector<std::string> targets;
  PipelineOptions pipeline;
  DeviceOptions device;
  InputOptions inputs;
  CheckPassesOptions check;
};

std::string package_name(const std::string& value) {
  return value.ends_with(core::package::suffix) && value.size() > core::package::suffix.size()
             ? ""
             : fmt::format("a package's name ends in {}", core::package::suffix);
}

Result<void> compile(const CompileOptions& options) {
  Progress progress("loading " + options.model);
  std::vector<core::TargetName> targets;
  for (const auto& given : options.targets)
    for (auto& name : core::runtime::target_names(given)) {
      auto where = name.empty() ? std::string("--target") : "--target " + name;
      targets.push_back({std::move(name), std::move(where)});
    }
  PipelineOptions pipeline = options.pipeline;
  for (const auto& target : targets) pipeline.targets.push_back(target.text);
  FE_TRY(auto opened, open_model(pipeline, options.device, options.model, options.check));
  FE_TRY(const auto dims, resolve_dims(*opened.model, options.inputs));
  progress.update("compiling " + options.model);
  opened.compile.tune.progress = [&](std::string_view text) { progress.update(text); };
  FE_TRY(const auto saved, opened.model->save(dims, opened.compile, targets, options.output));
  progress.update("");
  report(opened.check.get());
  if (saved.programs.size() == 1) {
    fmt::print("{}: {}, {}\n", options.output, stats_text(saved.programs[0].stats), size_text(saved.bytes));
    return {};
  }
  for (const auto& program : saved.programs)
    fmt::print("{}: {}\n", program.devices, stats_text(program.stats));
  fmt::print("{}: {}, {}\n", options.output, counted(saved.programs.size(), "target"),
             size_text(saved.bytes));
  return {};
}

}  // namespace

Run add_compile(CLI::App& command) {
  auto options = std::make_shared<CompileOptions>();
  command.add_option("model", options->model, model_help)->required()->type_name("MODEL");
  command.add_option("-o,--output", options->output, "The package to write (.fepkg)")
      ->required()
      ->type_name("FILE")
      ->check(package_name);
  command
      .add_option(
          "--target", options->targets,
          "The targets to compile for: names of targets with commas between, as sm_90a,x86-64-v4, or one as "
          "its backend describes it; may be repeated. Without it, this machine")
      ->type_name("TARGET,...")
      ->check(not_empty)
      ->allow_extra_args(false);
  options->inputs.add_to(command);
  options->device.add_to(command);
  options->pipeline.add_to(command);
  options->check.add_to(command);
  command.footer(
      "  ferrite compile model.onnx --dim batch=1 --target x86-64-v4 -o model.fepkg\n"
      "  ferrite run model.fepkg");
  return [options] {
    auto done = compile(*options);
    return done ? 0 : report(done.error());
  };
}

}  // namespace ferrite::cli
