// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// ferrite bench: the time of a run.
#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "core/support/elapsed.h"
#include "ferrite/counted.hpp"
#include "tools/cli/inputs.h"
#include "tools/cli/running.h"

namespace ferrite::cli {
namespace {

using Clock = std::chrono::steady_clock;

struct BenchOptions {
  std::string model, trace;
  PipelineOptions pipeline;
  DeviceOptions device;
  InputOptions inputs;
  CheckPassesOptions check;
  bool recompile = false;
  int64_t repeat = 20;
  bool json = false, on_device = false;
};

constexpr int warm_up_runs = 2;

Result<void> bench(const BenchOptions& options) {
  Progress progress("loading " + options.model);
  core::observe::Observation observation;
  const auto pipeline = pipeline_for(options.pipeline, options.model, options.recompile);
  FE_TRY(auto opened, open_model(pipeline, options.device, options.model, options.check,
                                 options.trace.empty() ? nullptr : &observation));
  opened.compile.recompile = options.recompile;
  opened.compile.ports_on_device = options.on_device;
  FE_TRY(auto inputs, make_inputs(*opened.model, options.inputs));
  progress.update("compiling " + options.model);
  opened.compile.tune.progress = [&](std::string_view text) { progress.update(text); };
  FE_TRY(auto runner, Runner::make(opened, inputs));
  progress.update("");
  report(opened.check.get());
  auto first = Clock::now();
  FE_CHECK(runner.run(inputs));
  const double first_ms = core::milliseconds_since(first);
  for (int k = 1; k < warm_up_runs; ++k) FE_CHECK(runner.run(inputs));
  std::vector<double> times;
  auto shown = Clock::now();
  for (int64_t k = 0; k < options.repeat; ++k) {
    // Updated between runs, and seldom, so that it does not affect the measurement.
    if (core::milliseconds_since(shown) > 500) {
      progress.update(fmt::format("run {} of {}", k + 1, options.repeat));
      shown = Clock::now();
    }
    auto start = Clock::now();
    FE_CHECK(runner.run(inputs, opened.compile.observation));
    times.push_back(core::milliseconds_since(start));
  }
  progress.update("");
  if (!options.trace.empty()) FE_CHECK(write_text(options.trace, core::observe::trace_json(observation)));
  std::sort(times.begin(), times.end());
  const size_t middle = times.size() / 2;
  const double median = times.size() % 2 ? times[middle] : (times[middle - 1] + times[middle]) / 2;
  const auto& stats = runner.program().compilation.stats;
  if (options.json) {
    nlohmann::ordered_json figures{{"median_ms", median},
                                   {"min_ms", times.front()},
                                   {"max_ms", times.back()},
                                   {"first_ms", first_ms},
                                   {"compile_ms", stats.compile_ms},
                                   {"init_ms", stats.init_ms},
                                   {"load_ms", stats.load_ms},
                                   {"nodes", stats.nodes},
                                   {"statements", stats.statements},
                                   {"kernels", stats.kernels},
                                   {"kernels_at_load", stats.kernels_at_load},
                                   {"unique_kernels", stats.unique_kernels},
                                   {"cache_hits", stats.cache.hits},
                                   {"cache_misses", stats.cache.missed()},
                                   {"cache_bypasses", stats.cache.bypasses},
                                   {"cache_faults", stats.cache.faults},
                                   {"threads", runner.threads()},
                                   {"repeat", options.repeat},
                                   {"device", opened.compile.device},
                                   {"model", options.model}};
    fmt::print("{}\n", figures.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
    return {};
  }
  fmt::print("median {:.3f} ms, min {:.3f} ms, max {:.3f} ms, first {:.3f} ms ({} on {})\n", median,
             times.front(), times.back(), first_ms, counted(options.repeat, "run"),
             counted(runner.threads(), "thread"));
  fmt::print("{}, prepared constants in {:.1f} ms, loaded in {:.1f} ms\n", stats_text(stats), stats.init_ms,
             stats.load_ms);
  return {};
}

}  // namespace

Run add_bench(CLI::App& command) {
  auto options = std::make_shared<BenchOptions>();
  command.add_option("model", options->model, model_help)->required()->type_name("MODEL");
  command.add_option("--repeat", options->repeat, "Runs that are timed, after two that are not")
      ->type_name("N")
      ->capture_default_str()
      ->check(CLI::Range(int64_t{1}, int64_t{1000000}));
  command
      .add_option("--trace", options->trace,
                  "Write a timeline of the timed runs as trace events; Perfetto shows it")
      ->type_name("FILE");
  command.add_flag("--on-device", options->on_device,
                   "Inputs and outputs stay in the memory of the first device: no transfers are timed");
  command.add_flag("--json", options->json, "One line of JSON instead of text");
  options->inputs.add_to(command);
  options->device.add_to(command);
  options->pipeline.add_to(command);
  options->check.add_to(command);
  add_recompile(command, options->recompile);
  return [options] {
    auto done = bench(*options);
    return done ? 0 : report(done.error());
  };
}

}  // namespace ferrite::cli
