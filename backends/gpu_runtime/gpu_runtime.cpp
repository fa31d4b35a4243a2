// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ferrite/gpu_runtime/gpu_runtime.h"

#include <exception>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "ferrite/error.hpp"

namespace ferrite::emitter {

namespace {

struct Kernel {
  uint32_t device = 0;
  LoadedCode loaded;
  DeviceCode code;  // without the field `code`
};

struct Module {
  uint32_t device = 0;
  std::vector<LoadedCode> loaded;
  std::map<std::string, Kernel, std::less<>> kernels;
};

Kernel& find(void* module, std::string_view entry, const std::string& error_code) {
  auto& kernels = static_cast<Module*>(module)->kernels;
  const auto found = kernels.find(entry);
  if (found == kernels.end()) fail(error_code, "there is no kernel '", entry, "' in the module");
  return found->second;
}

}  // namespace

/// State while the kernels of a module are loaded in parallel.
struct GpuRuntime::Loading {
  GpuRuntime& runtime;
  uint32_t device;
  std::span<const Bytes> blobs;
  std::vector<DeviceCode> made{blobs.size()};
  std::vector<LoadedCode> loaded{blobs.size()};
  std::vector<std::exception_ptr> failed{blobs.size()};

  void load(size_t k) noexcept {
    try {
      made[k] = read_device_code(blobs[k], runtime.id(), runtime.code("link"));
      loaded[k] = runtime.load(device, made[k]);
      made[k].code.clear();
    } catch (...) {
      failed[k] = std::current_exception();
    }
  }
};

void* GpuRuntime::module_load(uint32_t device, std::span<const Bytes> blobs, std::string_view) {
  auto module = std::make_unique<Module>();
  module->device = device;
  Loading loading{*this, device, blobs};
  // Drivers compile on the calling thread, so load in parallel.
  host_.parallel_for(static_cast<int64_t>(blobs.size()), 1, 0, &loading,
                     [](void* context, int64_t begin, int64_t end, int64_t) {
                       for (int64_t k = begin; k < end; ++k)
                         static_cast<Loading*>(context)->load(static_cast<size_t>(k));
                     });
  for (const auto& each : loading.loaded)
    if (each.module) module->loaded.push_back(each);
  for (const auto& failed : loading.failed) {
    if (!failed) continue;
    try {
      unload(device, module->loaded);
    } catch (const std::exception& later) {
      host_.log(FE_LOG_WARNING, "plugins", id() + ": " + later.what());  // the first failure is the error
    }
    std::rethrow_exception(failed);
  }
  for (size_t k = 0; k < blobs.size(); ++k) {
    auto entry = loading.made[k].entry;
    module->kernels.insert_or_assign(std::move(entry),
                                     Kernel{device, loading.loaded[k], std::move(loading.made[k])});
  }
  return module.release();
}

void GpuRuntime::module_unload(void* module) {
  const std::unique_ptr<Module> owned(static_cast<Module*>(module));
  unload(owned->device, owned->loaded);
}

void* GpuRuntime::function(void* module, std::string_view entry) {
  return &find(module, entry, code("link"));
}

LaunchNeeds GpuRuntime::needs(void* module, std::string_view entry) {
  const auto& made = find(module, entry, code("link")).code;
  return {made.blocks, CompileResult().grain, 0, made.arguments};
}

CodeNumbers GpuRuntime::numbers(void* module, std::string_view entry) {
  return find(module, entry, code("link")).loaded.numbers;
}

void GpuRuntime::launch(const fe_launch_args& args) {
  const auto& kernel = *static_cast<const Kernel*>(args.function);
  if (args.buffer_count != kernel.code.arguments.size())
    fail(code("launch"), "the kernel takes ", kernel.code.arguments.size(), " buffers and is given ",
         args.buffer_count);
  std::vector<const void*> arguments(args.buffers, args.buffers + args.buffer_count);
  arguments.push_back(args.error);
  const bool follows = (args.flags & FE_LAUNCH_FOLLOWS) != 0;
  start(kernel.device, args.stream, kernel.loaded.function, kernel.code, follows, arguments);
}

}  // namespace ferrite::emitter
