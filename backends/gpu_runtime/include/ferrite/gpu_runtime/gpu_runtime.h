// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A runtime for the output of GpuProvider: the management of modules and kernels that all drivers share.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "ferrite/gpu_runtime/device_code.h"
#include "ferrite/provider.hpp"

namespace ferrite::emitter {

/// The driver's handles of a loaded kernel.
struct LoadedCode {
  void* module = nullptr;
  void* function = nullptr;
  CodeNumbers numbers{};
};

/// A runtime whose blobs are DeviceCode of the format `id`. Callable from any thread, as the driver is.
class GpuRuntime : public Runtime {
 public:
  explicit GpuRuntime(Host host) : host_(host) {}
  void* module_load(uint32_t device, std::span<const Bytes> blobs, std::string_view name) final;
  void module_unload(void* module) final;
  void* function(void* module, std::string_view entry) final;
  LaunchNeeds needs(void* module, std::string_view entry) final;
  CodeNumbers numbers(void* module, std::string_view entry) final;
  void launch(const fe_launch_args& args) final;

 protected:
  /// Throws Failure if the driver rejects the code. Called from several threads in parallel.
  virtual LoadedCode load(uint32_t device, const DeviceCode& code) = 0;
  /// Unloads after all work that was given to the device.
  virtual void unload(uint32_t device, std::span<const LoadedCode> codes) = 0;
  /// Launches the code's blocks, possibly none, on the stream; each argument is a pointer. `follows`: as
  /// FE_LAUNCH_FOLLOWS.
  virtual void start(uint32_t device, void* stream, void* function, const DeviceCode& code, bool follows,
                     std::span<const void* const> arguments) = 0;

  /// An error code of the plugin.
  std::string code(const char* what) const { return "ferrite." + id() + "/" + what; }

 private:
  struct Loading;

  const Host host_;
};

}  // namespace ferrite::emitter
