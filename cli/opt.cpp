// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// ferrite opt: any span of stages over a model, as text.
#include <algorithm>

#include "cli/inputs.h"
#include "cli/running.h"

namespace ferrite::cli {
namespace {

struct Options {
  std::string model, from, to;
  std::vector<std::string> passes;
  PipelineOptions pipeline;
  DeviceOptions device;
  InputOptions inputs;
};

Result<void> opt(const Options& options) {
  FE_TRY(auto opened, open_model(options.pipeline, options.device, options.model));
  auto known = [&](const std::string& name) {
    const auto& passes = opened.session->registry().passes();
    return std::any_of(passes.begin(), passes.end(), [&](const auto& pass) { return pass.name == name; });
  };
  for (const auto& name : options.passes)
    if (!known(name)) {
      std::vector<std::string_view> names;
      for (const auto& pass : opened.session->registry().passes()) names.push_back(pass.name);
      return core::at(
          "--pass " + name,
          error(FE_EINVALID, "FE-C07", "no plugin has such a pass; there are {}", fmt::join(names, ", ")));
    }
  FE_TRY(auto dims, resolve_dims(*opened.model, options.inputs));
  FE_TRY(auto graph, opened.model->graph(dims));
  opened.compile.from = options.from;
  opened.compile.to = options.to;
  opened.compile.only_passes = options.passes;
  core::Ledger ledger;
  FE_TRY(auto compilation,
         core::compile(std::move(graph), opened.session->registry(), opened.compile, ledger));
  fmt::print("{}", compilation.text());
  return {};
}

}  // namespace

Run add_opt(CLI::App& command) {
  auto options = std::make_shared<Options>();
  command.add_option("model", options->model, "A model, or the text form of a graph (.fe)")
      ->required()
      ->type_name("MODEL");
  command.add_option("--from", options->from, "The first stage to run; earlier ones are left out")
      ->type_name("STAGE");
  command.add_option("--to", options->to, "The last stage to run; its result is printed")->type_name("STAGE");
  command
      .add_option("--pass", options->passes,
                  "Run this pass only, of all passes of the stages; may be repeated")
      ->type_name("NAME")
      ->allow_extra_args(false);
  options->inputs.add_to(command);
  options->device.add_to(command);
  options->pipeline.add_to(command);
  command.footer(fmt::format("Stages, in their order:\n  {}", fmt::join(core::stages(), " ")));
  return [options] {
    auto done = opt(*options);
    return done ? 0 : report(done.error());
  };
}

}  // namespace ferrite::cli
