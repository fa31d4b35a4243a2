// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "driver.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <string_view>

#include "ferrite/error.hpp"

namespace ferrite::level_zero {

namespace {

struct Error {
  Result result;
  std::string_view text;
};
// Those that a correct caller may see; others are told by their number.
constexpr std::array errors = {
    Error{error_device_lost, "the device is lost, it hung or was reset: start the program again"},
    Error{error_out_of_host_memory, "the host has too little memory"},
    Error{error_out_of_device_memory, "the device has too little memory"},
    Error{0x70000004, "the code is not taken"},
    Error{0x70000006, "the device is to be reset"},
    Error{0x70010000,
          "the user may not use the device: add it to the group of /dev/dri/renderD*, 'render' mostly"},
    Error{0x70010001, "the device is in use"},
    Error{0x70020000, "a library that the driver needs is missing: install the driver's compiler, too"},
    Error{error_uninitialised, "there is no driver, or it does not start"},
    Error{0x78000002, "the version is not supported"},
    Error{error_unsupported_feature, "the driver lacks what is asked for"},
    Error{error_unsupported_size, "the size is more than the device allows in one piece"},
};

[[noreturn]] void unavailable(const std::string& text) {
  throw Failure(FE_EDEVICE, "ferrite.level_zero/driver", text);
}

template <class Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (!function)
    unavailable(std::string("Level Zero's loader has no function '") + name +
                "'; install a newer one, of version 1.3 or later");
}

}  // namespace

std::string text_of(Result result) {
  std::array<char, 16> number{};
  std::snprintf(number.data(), number.size(), "%#x", result);
  const auto* found = std::ranges::find(errors, result, &Error::result);
  const auto text = found == errors.end() ? "an error" : found->text;
  return std::string(text) + " (" + number.data() + ")";
}

void check(Result result, const char* what) {
  if (result == success) return;
  const bool memory = result == error_out_of_host_memory || result == error_out_of_device_memory ||
                      result == error_unsupported_size;
  throw Failure(FE_EDEVICE, memory ? "ferrite.level_zero/memory" : "ferrite.level_zero/device",
                std::string(what) + " failed: " + text_of(result));
}

Driver open_driver(const std::string& library) {
  void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char* reason = dlerror();
    unavailable(
        std::string(reason ? reason : library + " cannot be opened") +
        "; there is no Level Zero here: install its loader and Intel's driver, or name another device");
  }
  Driver driver;
  find(handle, "zeInit", driver.init);
  find(handle, "zeDriverGet", driver.driver_get);
  find(handle, "zeDeviceGet", driver.device_get);
  find(handle, "zeDeviceGetProperties", driver.device_properties);
  find(handle, "zeDeviceGetComputeProperties", driver.compute_properties);
  find(handle, "zeDeviceGetModuleProperties", driver.module_properties);
  find(handle, "zeDeviceGetCommandQueueGroupProperties", driver.queue_group_properties);
  find(handle, "zeDeviceGetMemoryProperties", driver.memory_properties);
  find(handle, "zeDeviceGetCacheProperties", driver.cache_properties);
  find(handle, "zeContextCreate", driver.context_create);
  find(handle, "zeCommandListCreateImmediate", driver.list_create);
  find(handle, "zeCommandListAppendBarrier", driver.append_barrier);
  find(handle, "zeCommandListAppendMemoryCopy", driver.append_copy);
  find(handle, "zeCommandListAppendLaunchKernel", driver.append_launch);
  find(handle, "zeEventPoolCreate", driver.event_pool_create);
  find(handle, "zeEventCreate", driver.event_create);
  find(handle, "zeEventHostSynchronize", driver.event_wait);
  find(handle, "zeEventHostReset", driver.event_reset);
  find(handle, "zeMemAllocDevice", driver.alloc);
  find(handle, "zeMemFree", driver.free);
  find(handle, "zeModuleCreate", driver.module_create);
  find(handle, "zeModuleDestroy", driver.module_destroy);
  find(handle, "zeModuleBuildLogGetString", driver.build_log_text);
  find(handle, "zeModuleBuildLogDestroy", driver.build_log_destroy);
  find(handle, "zeKernelCreate", driver.kernel_create);
  find(handle, "zeKernelDestroy", driver.kernel_destroy);
  find(handle, "zeKernelSetGroupSize", driver.kernel_group_size);
  find(handle, "zeKernelSetArgumentValue", driver.kernel_argument);
  if (const auto result = driver.init(0); result == error_uninitialised)
    unavailable(
        "Level Zero's loader finds no driver that starts (0x78000001); install Intel's driver for compute, "
        "or name another device");
  else if (result != success)
    unavailable("Level Zero does not start: " + text_of(result));
  return driver;
}

}  // namespace ferrite::level_zero
