// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// ferrite run: runs a model once and writes the results to files.
#include <chrono>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/support/elapsed.h"
#include "core/support/files/file_fault.h"
#include "ferrite/counted.hpp"
#include "tools/cli/inputs.h"
#include "tools/cli/npy.h"
#include "tools/cli/running.h"

namespace ferrite::cli {
namespace {

using core::at;

struct RunOptions {
  std::string model, folder, trace;
  PipelineOptions pipeline;
  DeviceOptions device;
  InputOptions inputs;
  CheckPassesOptions check;
  bool recompile = false;
};

/// "min -1.2, mean 0.1, max 3.4", and the number of NaNs.
std::string summary(const Tensor& tensor) {
  double least = HUGE_VAL, most = -HUGE_VAL, sum = 0;
  int64_t nan = 0;
  for (int64_t k = 0; k < tensor.elements(); ++k) {
    const double value = tensor.number(k);
    if (std::isnan(value)) {
      ++nan;
      continue;
    }
    least = std::min(least, value);
    most = std::max(most, value);
    sum += value;
  }
  const int64_t numbers = tensor.elements() - nan;
  std::string text = numbers == 0 ? "no numbers"
                                  : fmt::format("min {:.6g}, mean {:.6g}, max {:.6g}", least,
                                                sum / static_cast<double>(numbers), most);
  return nan > 0 ? fmt::format("{}, {} NaN", text, nan) : text;
}

Result<void> write_outputs(const std::string& folder, const Runner& runner,
                           const std::vector<core::ModelPort>& ports) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed)
    return at(folder, error(FE_EINVALID, "FE-C10", "the folder cannot be made: {}",
                            core::file_fault(folder, failed.value())));
  auto list = nlohmann::ordered_json::array();
  for (size_t k = 0; k < runner.outputs().size(); ++k) {
    const auto& tensor = runner.outputs()[k];
    FE_CHECK(write_npy((std::filesystem::path(folder) / fmt::format("output_{}.npy", k)).string(), tensor));
    list.push_back(
        {{"index", k}, {"name", ports[k].name}, {"dtype", name_of(tensor.dtype)}, {"shape", tensor.dims}});
  }
  return write_text((std::filesystem::path(folder) / "outputs.json").string(),
                    list.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
}

Result<void> run(const RunOptions& options) {
  Progress progress("loading " + options.model);
  core::observe::Observation observation;
  const auto pipeline = pipeline_for(options.pipeline, options.model, options.recompile);
  FE_TRY(auto opened, open_model(pipeline, options.device, options.model, options.check,
                                 options.trace.empty() ? nullptr : &observation));
  opened.compile.recompile = options.recompile;
  FE_TRY(auto inputs, make_inputs(*opened.model, options.inputs));
  progress.update("compiling " + options.model);
  opened.compile.tune.progress = [&](std::string_view text) { progress.update(text); };
  FE_TRY(auto runner, Runner::make(opened, inputs));
  progress.update("");
  report(opened.check.get());
  note_passed_over(opened, runner.program().compilation.stats);
  progress.update("running " + options.model);
  auto start = std::chrono::steady_clock::now();
  FE_CHECK(runner.run(inputs, opened.compile.observation));
  const double run_ms = core::milliseconds_since(start);
  if (!options.folder.empty()) FE_CHECK(write_outputs(options.folder, runner, opened.model->outputs()));
  if (!options.trace.empty()) FE_CHECK(write_text(options.trace, core::observe::trace_json(observation)));
  progress.update("");
  for (size_t k = 0; k < runner.outputs().size(); ++k) {
    const auto& tensor = runner.outputs()[k];
    fmt::print("output {} '{}' {}: {}\n", k, opened.model->outputs()[k].name,
               type_text(tensor.dtype, tensor.dims), summary(tensor));
  }
  const auto& stats = runner.program().compilation.stats;
  const auto prepared = stats.kernels_at_load > 0
                            ? fmt::format(", prepared constants in {:.1f} ms", stats.init_ms)
                            : std::string();
  fmt::print("{}{}, run in {:.2f} ms on {}\n", stats_text(stats), prepared, run_ms,
             counted(runner.threads(), "thread"));
  return {};
}

}  // namespace

Run add_run(CLI::App& command) {
  auto options = std::make_shared<RunOptions>();
  command.add_option("model", options->model, model_help)->required()->type_name("MODEL");
  options->inputs.add_to(command);
  command
      .add_option("-o,--output", options->folder,
                  "Write output_0.npy, output_1.npy, ... and outputs.json into this folder")
      ->type_name("DIR")
      ->check(not_empty);
  command
      .add_option(
          "--trace", options->trace,
          "Write a timeline of plugins, stages, passes and kernels as trace events; Perfetto shows it")
      ->type_name("FILE")
      ->check(not_empty);
  options->device.add_to(command);
  options->pipeline.add_to(command);
  options->check.add_to(command);
  add_recompile(command, options->recompile);
  command.footer(
      "Inputs that are not given are random: floats N(0,1), integers and bool 0 or 1.\n"
      "  ferrite run model.onnx -i image=image.npy -o results\n"
      "  ferrite run model.onnx --dim batch=4 --dim x:2=48 --seed 7");
  return [options] {
    auto done = run(*options);
    return done ? 0 : report(done.error());
  };
}

}  // namespace ferrite::cli
