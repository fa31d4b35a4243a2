// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ferrite/emitter/grid_runtime.h"

#include <map>
#include <memory>
#include <utility>

#include "ferrite/error.hpp"

namespace ferrite::emitter {

namespace {

struct Kernel {
  uint32_t device = 0;
  LoadedCode loaded;
  DeviceCode code;  // without the code
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

void* GridRuntime::module_load(uint32_t device, std::span<const Bytes> blobs, std::string_view) {
  auto module = std::make_unique<Module>();
  module->device = device;
  try {
    for (const auto& bytes : blobs) {
      auto made = read_device_code(bytes, id(), code("link"));
      const auto loaded = load(device, made);
      module->loaded.push_back(loaded);
      made.code.clear();
      auto entry = made.entry;
      module->kernels.insert_or_assign(std::move(entry), Kernel{device, loaded, std::move(made)});
    }
  } catch (...) {
    unload(device, module->loaded);
    throw;
  }
  return module.release();
}

void GridRuntime::module_unload(void* module) {
  const std::unique_ptr<Module> owned(static_cast<Module*>(module));
  unload(owned->device, owned->loaded);
}

void* GridRuntime::function(void* module, std::string_view entry) {
  return &find(module, entry, code("link"));
}

LaunchNeeds GridRuntime::needs(void* module, std::string_view entry) {
  const auto& made = find(module, entry, code("link")).code;
  return {made.blocks, CompileResult().grain, 0, made.arguments};
}

void GridRuntime::launch(const fe_launch_args& args) {
  const auto& kernel = *static_cast<const Kernel*>(args.function);
  if (kernel.code.blocks == 0) return;
  if (args.buffer_count != kernel.code.arguments.size())
    fail(code("launch"), "the kernel takes ", kernel.code.arguments.size(), " buffers and is given ",
         args.buffer_count);
  std::vector<const void*> arguments(args.buffers, args.buffers + args.buffer_count);
  arguments.push_back(args.error);
  start(kernel.device, kernel.loaded.function, kernel.code, arguments);
}

}  // namespace ferrite::emitter
