// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// ferrite compile: a model, compiled, as one file that runs elsewhere.
#include "cli/inputs.h"
#include "cli/running.h"
#include "core/package/package.h"

namespace ferrite::cli {
namespace {

struct Options {
  std::string model, output, target;
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

Result<void> compile(const Options& options) {
  Progress progress("loading " + options.model);
  FE_TRY(auto opened, open_model(options.pipeline, options.device, options.model, options.check));
  FE_TRY(const auto dims, resolve_dims(*opened.model, options.inputs));
  opened.compile.target = options.target;
  if (!options.target.empty()) opened.compile.device_where = "--target " + options.target;
  progress.update("compiling " + options.model);
  opened.compile.tune.progress = [&](std::string_view text) { progress.update(text); };
  FE_TRY(const auto saved, opened.model->save(dims, opened.compile, options.output));
  progress.update("");
  report(opened.check.get());
  fmt::print("{}: {}, {}\n", options.output, stats_text(saved.stats), size_text(saved.bytes));
  return {};
}

}  // namespace

Run add_compile(CLI::App& command) {
  auto options = std::make_shared<Options>();
  command.add_option("model", options->model, "The model's file (.onnx, .fe, .fepkg)")
      ->required()
      ->type_name("MODEL");
  command.add_option("-o,--output", options->output, "The package to write (.fepkg)")
      ->required()
      ->type_name("FILE")
      ->check(package_name);
  command
      .add_option("--target", options->target,
                  "What to compile for, as the device's backend describes it; without it, this machine")
      ->type_name("TARGET")
      ->check(not_empty);
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
