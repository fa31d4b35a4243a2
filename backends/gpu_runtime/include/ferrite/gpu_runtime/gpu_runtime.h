// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A runtime of what GpuProvider compiles: modules and their kernels, as far as that is the same for all drivers.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "ferrite/gpu_runtime/device_code.h"
#include "ferrite/provider.hpp"

namespace ferrite::emitter {

/// The driver's side of one loaded kernel.
struct LoadedCode {
  void* module = nullptr;
  void* function = nullptr;
  CodeNumbers numbers{};
};

/// A runtime whose blobs are DeviceCode of the format `id`. Any-thread, as the driver is.
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
  /// Throws Failure where the driver does not take the code. Called from several threads at once.
  virtual LoadedCode load(uint32_t device, const DeviceCode& code) = 0;
  /// Behind all work that was given to the device.
  virtual void unload(uint32_t device, std::span<const LoadedCode> codes) = 0;
  /// Gives the stream the code's blocks to do, which may be none; an argument is a pointer.
  virtual void start(uint32_t device, void* stream, void* function, const DeviceCode& code,
                     std::span<const void* const> arguments) = 0;

  /// An error code of the plugin's.
  std::string code(const char* what) const { return "ferrite." + id() + "/" + what; }

 private:
  struct Loading;

  const Host host_;
};

}  // namespace ferrite::emitter
