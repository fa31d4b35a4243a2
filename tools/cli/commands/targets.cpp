// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// ferrite targets: the devices of this machine, and the targets for which code can be compiled.
#include "core/support/abi/abi.h"
#include "core/support/warning.h"
#include "ferrite/counted.hpp"
#include "runtime/plugin/serialised_calls.h"
#include "runtime/pool.h"
#include "tools/cli/measure.h"

namespace ferrite::cli {
namespace {

using core::abi::Call;
using core::abi::sized;
using core::abi::view;

struct TargetsOptions {
  PipelineOptions pipeline;
  DeviceOptions device;
  bool measure = false;
};

std::string rate_text(double per_second, std::string_view unit) {
  return fmt::format("{:.1f} G{}/s", per_second * 1e-9, unit);
}

/// "bandwidth              32.0 GB/s ": the name of a number with its value and unit, in columns.
std::string number_text(std::string_view name, int64_t value) {
  const auto row = [&](const auto& shown, std::string_view unit) {
    return fmt::format("{:<12} {:>14} {:<5}", name, shown, unit);
  };
  const auto billions = [&] { return fmt::format("{:.1f}", static_cast<double>(value) * 1e-9); };
  if (name == "bandwidth") return row(billions(), "GB/s");
  if (name == "operations") return row(billions(), "Gop/s");
  return row(value, name.ends_with("_bytes") ? "B" : name.ends_with("_ns") ? "ns" : "");
}

/// Measures the peaks of the chosen device and stores them, for estimates.
Result<void> measure(const TargetsOptions& options, const core::config::Pipeline& pipeline,
                     const core::Session& session) {
  const auto compile = options.device.compile_options(pipeline);
  if (compile.device == core::runtime::interpreter_name)
    return error(FE_EINVALID, "FE-C01", "the interpreter has no peaks; name a device with --device");
  FE_TRY(const auto devices, core::runtime::open_devices(compile.device, session.registry()));
  const auto& device = *devices.back();
  core::observe::Peaks peaks;
  fe_target_numbers numbers{};
  std::optional<Error> disturbance;
  {
    Progress progress("measuring");
    Meter meter(session, progress);
    FE_TRY(peaks, measure_peaks(meter, compile));
    FE_TRY(numbers, measure_numbers(meter, compile));
    disturbance = meter.disturbance();
  }
  if (disturbance)
    core::log::warn("kernels",
                    core::at(fmt::format("{}:{}", device.kind, device.number), *disturbance).message());
  const int64_t workers = compile.threads > 0 ? compile.threads : core::runtime::Pool::process().workers();
  FE_TRY(const auto path, core::observe::save_peaks(device, workers, peaks));
  fmt::print("measured {}:{} with {}: {}\n", device.kind, device.number, counted(workers, "thread"),
             rate_text(peaks.operations, "FLOP"));
  for (const auto& [bytes, per_second] : peaks.bandwidth)
    fmt::print("  {:>10}  {}\n", size_text(static_cast<uint64_t>(bytes)), rate_text(per_second, "B"));
  for (const auto& number : core::runtime::number_table)
    if (number.is_measured && numbers.*number.stated != 0)
      fmt::print("  {}  {}\n", number_text(number.name, numbers.*number.stated), number.doc);
  FE_TRY(const auto other, core::runtime::save_measured(device.kind, device.description, numbers));
  fmt::print("kept in {}\nand {}\n", path, other);
  return {};
}

/// Prints the target numbers of a device; nothing where no provider compiles loops for it.
void print_numbers(const std::string& name, const core::plugin::Registry& registry) {
  const auto device = core::runtime::Device::open(name, registry);
  if (!device || (*device)->generators().empty()) return;
  const auto& [values, sources, choice_sources] = (*device)->numbers;
  const auto print = [](const std::string& columns, core::runtime::Source source, std::string_view doc) {
    fmt::print("    {}  {:<8}  {}\n", columns, core::runtime::name_of(source), doc);
  };
  for (size_t k = 0; k < sources.size(); ++k) {
    const auto& number = core::runtime::number_table[k];
    print(number_text(number.name, values.*number.value), sources[k], number.doc);
  }
  for (size_t k = 0; k < choice_sources.size(); ++k) {
    const auto& choice = core::runtime::choice_table[k];
    print(fmt::format("{:<12} {:>14}      ", choice.name, choice.name_in(values)), choice_sources[k],
          choice.doc);
  }
}

void print_devices(const fe_runtime& runtime, const core::plugin::Registry& registry) {
  core::abi::Call call;
  auto none = core::abi::sized<fe_none>();
  auto count = core::abi::sized<fe_device_count_out>();
  count.count = 1;
  if (runtime.device_count) {
    int32_t status = core::plugin::invoke(runtime, runtime.device_count, call, &none, &count);
    if (status != FE_OK) {
      fmt::print("  {}: {}\n", core::abi::view(runtime.id),
                 call.error(status, "FE-D05", "its devices cannot be counted").message());
      return;
    }
  }
  if (count.count == 0) fmt::print("  {}: no device here\n", core::abi::view(runtime.id));
  for (uint32_t k = 0; k < count.count; ++k) {
    core::abi::Collector<> name, description;
    auto args = core::abi::sized<fe_device_args>();
    args.device = k;
    auto out = core::abi::sized<fe_describe_out>();
    out.name = name.sink();
    out.description = description.sink();
    core::abi::Call describe;
    int32_t status = core::plugin::invoke(runtime, runtime.describe, describe, &args, &out);
    if (status != FE_OK) {
      fmt::print("  {}:{}: {}\n", core::abi::view(runtime.id), k,
                 describe.error(status, "FE-D05", "the device cannot be described").message());
      continue;
    }
    fmt::print("  {}:{}  {}", core::abi::view(runtime.id), k, name.bytes());
    if (out.capacity > 0) fmt::print(", {:.1f} GiB", static_cast<double>(out.capacity) / (1 << 30));
    fmt::print("\n");
    print_numbers(fmt::format("{}:{}", core::abi::view(runtime.id), k), registry);
  }
}

Result<void> targets(const TargetsOptions& options) {
  FE_TRY(auto pipeline, options.pipeline.read(options.measure ? options.device.device
                                                              : std::string(core::config::every_device)));
  FE_TRY(auto session, core::Session::open(pipeline));
  if (options.measure) return measure(options, pipeline, *session);
  fmt::print("devices:\n");
  for (const auto& runtime : session->registry().runtimes())
    print_devices(*runtime.table, session->registry());
  fmt::print("  interpreter  exact and slow, for comparison\n");
  fmt::print("compiled for:\n");
  for (const auto& provider : session->registry().providers())
    fmt::print("  {}  by {} ({})\n", core::abi::view(provider.table->device_kind),
               core::abi::view(provider.table->id), provider.plugin->id);
  fmt::print("threads: {}\n", core::runtime::Pool::process().workers());
  return {};
}

}  // namespace

Run add_targets(CLI::App& command) {
  auto options = std::make_shared<TargetsOptions>();
  command.add_flag("--measure", options->measure,
                   "Measure the peaks of the device, and keep them in the user's cache folder for estimates");
  options->device.add_to(command);
  options->pipeline.add_to(command);
  return [options] {
    auto done = targets(*options);
    return done ? 0 : report(done.error());
  };
}

}  // namespace ferrite::cli
