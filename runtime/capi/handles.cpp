// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/capi/handles.h"

#include <algorithm>
#include <chrono>

#include "core/support/elapsed.h"

using namespace ferrite::core;

Result<capi::TensorDevice> ferrite_session::device() {
  std::lock_guard lock(mutex_);
  if (!device_) {
    FE_TRY(const auto devices, engine->devices());
    if (devices.empty())
      device_.emplace().name = runtime::interpreter_name;
    else
      device_ = capi::tensor_device(devices);
  }
  return *device_;
}

Result<capi::TensorDevice> ferrite_model::device(const ferrite_run_options& options,
                                                 std::span<const DLTensor* const> tensors) const {
  const auto elsewhere = [](const DLTensor* tensor) {
    return tensor && tensor->device.device_type != kDLCPU;
  };
  const bool asked = options.stream || options.outputs_on_device != 0;
  if (!asked && std::ranges::none_of(tensors, elsewhere)) return capi::TensorDevice{};
  FE_TRY(auto device, session->device());
  if (options.stream && !device.has_streams)
    return at("ferrite_run_options",
              error(FE_EUNSUPPORTED, "FE-X39", "'{}' has no streams; leave out 'stream'", device.name));
  return device;
}

std::unique_ptr<capi::Staging> ferrite_model::take(const RunKey& place) {
  {
    std::lock_guard lock(mutex);
    auto& ready = idle[place];
    if (!ready.empty()) {
      auto staging = std::move(ready.back());
      ready.pop_back();
      return staging;
    }
  }
  // Create it outside the lock: it opens streams and allocates arenas. Each concurrent run has its own.
  return std::make_unique<capi::Staging>(place.first, place.second, session->arenas);
}

void ferrite_model::put_back(const RunKey& place, std::unique_ptr<capi::Staging> staging) {
  std::lock_guard lock(mutex);
  idle[place].push_back(std::move(staging));
}

Result<std::shared_ptr<const capi::RunnableProgram>> ferrite_model::prepare(
    std::span<const capi::BoundTensor> inputs, bool apart) {
  // Most calls have the shapes of the last one.
  const auto is_same = [](const capi::BoundTensor& tensor, const runtime::PortInfo& port) {
    return std::ranges::equal(tensor.dims, port.dims);
  };
  std::shared_ptr<const capi::RunnableProgram> program;
  {
    std::lock_guard lock(mutex);
    if (last && last_is_apart == apart && std::ranges::equal(inputs, last->inputs(), is_same)) program = last;
  }
  if (!program) {
    FE_TRY(program, model->program(capi::dims_of(inputs), apart));
  }
  if (const auto executable = program->executable())
    for (const auto& device : executable->devices) FE_CHECK(device->check_process());
  std::lock_guard lock(mutex);
  if (last != program) run_ms = 0;
  last = program;
  last_is_apart = apart;
  return program;
}

Result<void> ferrite_model::run(const RunKey& place, std::unique_ptr<capi::Staging> staging,
                                std::span<const capi::BoundTensor> inputs,
                                std::span<const capi::BoundTensor> outputs,
                                const ferrite_run_options& options) {
  auto start = std::chrono::steady_clock::now();
  // If the run fails, the staging is destroyed instead of reused: its state is unknown.
  FE_CHECK(staging->run(inputs, outputs, options));
  double taken = milliseconds_since(start);
  put_back(place, std::move(staging));
  std::lock_guard lock(mutex);
  run_ms = taken;
  return {};
}
