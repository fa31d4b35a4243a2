// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tools/cli/running.h"

#include <algorithm>

#include "core/support/abi/abi.h"
#include "driver/config/manifest.h"
#include "ferrite/counted.hpp"
#include "runtime/device.h"
#include "runtime/package/package.h"

namespace ferrite::cli {
PipelineOptions pipeline_for(PipelineOptions pipeline, const std::string& path, bool recompile) {
  if (!recompile && path.ends_with(core::package::suffix)) pipeline.kinds = core::package::kinds_of(path);
  return pipeline;
}

namespace {

/// Whether a loaded plugin supports devices of each of these kinds.
bool are_known(const std::string& names, const core::plugin::Registry& registry) {
  return std::ranges::all_of(core::runtime::kinds_of(names), [&](const std::string& kind) {
    return kind == core::runtime::interpreter_name ||
           std::ranges::any_of(registry.runtimes(), [&](const auto& runtime) {
             return core::abi::view(runtime.table->id) == kind;
           });
  });
}

/// Checks that devices of these names are present. An error about an unknown kind gives for each known kind
/// the reason why it is absent; the plugins of all kinds are loaded for this.
Result<void> check_devices(const PipelineOptions& pipeline, const std::string& names,
                           const core::plugin::Registry& registry, std::string_view not_here) {
  const bool here = pipeline.targets.empty();
  auto checked = core::runtime::check_devices(names, registry, here);
  if (checked) return checked;
  if (!are_known(names, registry)) {
    const auto every = pipeline.read(std::string(core::config::every_device));
    if (!every) return checked;
    const auto session = core::Session::open(*every);
    if (!session) return checked;
    auto again = core::runtime::check_devices(names, (*session)->registry(), here);
    return again ? checked : again;
  }
  if (here && core::runtime::check_devices(names, registry, false)) checked.error().text += not_here;
  return checked;
}

}  // namespace

Result<OpenModel> open_model(const PipelineOptions& pipeline, const DeviceOptions& device,
                             const std::string& path, const CheckPassesOptions& check,
                             core::observe::Observation* observation, std::string_view not_here) {
  OpenModel opened;
  const auto start = core::observe::Clock::now();
  FE_TRY(auto read, pipeline.read(device.device));
  opened.compile = device.compile_options(read);
  opened.compile.observation = observation;
  FE_TRY(opened.session, core::Session::open(read));
  if (observation) observation->add({"session", "open plugins", start, core::observe::Clock::now(), 0, {}});
  // Stages before `fuse` need no device, but a given name must be a device's; for targets the device may be
  // absent.
  if (!device.device.empty())
    FE_CHECK(check_devices(pipeline, device.device, opened.session->registry(), not_here));
  opened.check = check.make(*opened.session);
  opened.compile.watcher = opened.check.get();
  FE_TRY(opened.model, core::Model::open(*opened.session, path));
  return opened;
}

void note_passed_over(const OpenModel& opened, const core::CompileStats& stats) {
  if (stats.passed_over.empty() || opened.compile.device_chosen || core::log::enabled("plugins")) return;
  fmt::print(stderr,
             "ferrite: note: not usable on this machine: {}, which the package prefers; --log plugins gives "
             "the reasons\n",
             fmt::join(stats.passed_over, ", "));
}

Result<Runner> Runner::make(OpenModel& opened, std::span<const Tensor> inputs) {
  std::vector<std::vector<int64_t>> dims;
  for (const auto& input : inputs) dims.push_back(input.dims);
  Runner runner;
  FE_TRY(runner.program_, opened.model->program(dims, opened.compile));
  if (runner.program_->compilation.executable)
    runner.context_ =
        std::make_unique<core::runtime::Executable::Context>(*runner.program_->compilation.executable);
  runner.device_ = opened.compile.device;
  runner.ports_ = runner.program_->outputs();
  for (const auto& port : runner.ports_) {
    FE_TRY(auto tensor, Tensor::make(port.dtype, port.dims));
    runner.outputs_.push_back(std::move(tensor));
  }
  if (const auto& executable = runner.program_->compilation.executable;
      executable && executable->memory_of_ports() != core::runtime::Executable::host) {
    runner.memory_ = std::make_unique<DeviceMemory>(executable);
    for (const auto& input : inputs) FE_CHECK(runner.memory_->add(input, true));
    for (const auto& output : runner.outputs_) FE_CHECK(runner.memory_->add(output, false));
  }
  return runner;
}

Runner::DeviceMemory::~DeviceMemory() {
  for (void* data : all_) executable_->free(executable_->ports_device(), data);
}

Result<void> Runner::DeviceMemory::add(const Tensor& tensor, bool input) {
  const auto bytes = static_cast<int64_t>(tensor.bytes().size());
  const uint32_t device = executable_->ports_device();
  FE_TRY(void* const data, executable_->alloc(device, bytes));
  all_.push_back(data);
  if (!input) {
    out.push_back(data);
    return {};
  }
  in.push_back(data);
  return executable_->copy(device, FE_COPY_TO_DEVICE, data, tensor.data(), bytes);
}

Result<void> Runner::run(std::span<const Tensor> inputs, core::observe::Observation* observation) {
  std::vector<const void*> in;
  std::vector<void*> out;
  if (memory_) {
    in = memory_->in;
    out = memory_->out;
  } else {
    for (const auto& input : inputs) in.push_back(input.data());
    for (auto& output : outputs_) out.push_back(output.data());
  }
  if (observation && context_) context_->keep_times();
  const auto start = core::observe::Clock::now();
  if (auto done = program_->run(context_.get(), in, out); !done)
    return core::at("device " + device_, std::move(done.error()));
  if (!observation) return {};
  const auto end = core::observe::Clock::now();
  observation->add({"run", "run", start, end, 0, {{"workers", threads()}}});
  if (context_) core::observe::add_launches(*observation, *program_->compilation.executable, *context_);
  return {};
}

Result<std::span<const core::runtime::LaunchTime>> Runner::time(std::span<const Tensor> inputs) {
  context_->keep_times();
  FE_CHECK(run(inputs));
  return context_->times();
}

int64_t Runner::threads() const {
  const auto& executable = program_->compilation.executable;
  return executable ? executable->workers : 1;
}

void add_recompile(CLI::App& command, bool& recompile) {
  command.add_flag("--recompile", recompile, "Of a package: compile its graph anew, with the options given");
}

std::string kernels_text(const core::CompileStats& stats) {
  std::string text = stats.kernels == 1 ? "kernel" : "kernels";
  if (stats.kernels_at_load > 0) text += fmt::format(" and {} at load", stats.kernels_at_load);
  if (stats.unique_kernels != stats.kernels + stats.kernels_at_load)
    text += fmt::format(", {} different", stats.unique_kernels);
  return text;
}

std::string stats_text(const core::CompileStats& stats) {
  std::string text = fmt::format("{}, {}, {} {}", counted(stats.nodes, "node"),
                                 counted(stats.statements, "statement"), stats.kernels, kernels_text(stats));
  if (stats.packaged)
    return text + fmt::format(", nothing compiled, {}loaded in {:.1f} ms",
                              stats.target.empty() ? "" : "for " + stats.target + ", ", stats.load_ms);
  if (stats.cache.hits > 0) text += fmt::format(", {} from the cache", stats.cache.hits);
  return text + fmt::format(", compiled in {:.1f} ms", stats.compile_ms);
}

}  // namespace ferrite::cli
