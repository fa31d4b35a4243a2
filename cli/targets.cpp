// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// ferrite targets: devices that are here, and what can be compiled for.
#include "cli/common.h"
#include "core/plugin/serial.h"
#include "core/run/pool.h"
#include "core/support/abi.h"

namespace ferrite::cli {
namespace {

using core::abi::Call;
using core::abi::sized;
using core::abi::view;

struct Options {
  PipelineOptions pipeline;
};

void print_devices(const fe_runtime& runtime) {
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
  }
}

Result<void> targets(const Options& options) {
  FE_TRY(auto pipeline, options.pipeline.read());
  FE_TRY(auto session, core::Session::open(pipeline));
  fmt::print("devices:\n");
  for (const auto& runtime : session->registry().runtimes()) print_devices(*runtime.table);
  fmt::print("  interpreter  exact and slow, for comparison\n");
  fmt::print("compiled for:\n");
  for (const auto& provider : session->registry().providers())
    fmt::print("  {}  by {} ({})\n", core::abi::view(provider.table->device_kind),
               core::abi::view(provider.table->id), provider.plugin->id);
  fmt::print("threads: {}\n", core::run::Pool::process().workers());
  return {};
}

}  // namespace

Run add_targets(CLI::App& command) {
  auto options = std::make_shared<Options>();
  options->pipeline.add_to(command);
  return [options] {
    auto done = targets(*options);
    return done ? 0 : report(done.error());
  };
}

}  // namespace ferrite::cli
