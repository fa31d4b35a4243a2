// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "driver.h"

#include <algorithm>
#include <cstdio>
#include <string_view>

#include "ferrite/dynamic_library.hpp"
#include "ferrite/error.hpp"

namespace ferrite::level_zero {

namespace {

struct Error {
  Result result;
  std::string_view text;
};
// Errors that a correct caller may see; others are reported by their number.
constexpr std::array errors = {
    Error{error_device_lost, "the device is lost, it hung or was reset"},
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
void find(const DynamicLibrary& library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(library.symbol(name));
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

Driver open_driver(const std::string& name) {
  const DynamicLibrary library({&name, 1});
  if (!library.is_open())
    unavailable(
        library.reasons() +
        "; there is no Level Zero here: install its loader and Intel's driver, or name another device");
  Driver driver;
  find(library, "zeInit", driver.init);
  find(library, "zeDriverGet", driver.driver_get);
  find(library, "zeDeviceGet", driver.device_get);
  find(library, "zeDeviceGetProperties", driver.device_properties);
  find(library, "zeDeviceGetComputeProperties", driver.compute_properties);
  find(library, "zeDeviceGetModuleProperties", driver.module_properties);
  find(library, "zeDeviceGetCommandQueueGroupProperties", driver.queue_group_properties);
  find(library, "zeDeviceGetMemoryProperties", driver.memory_properties);
  find(library, "zeDeviceGetCacheProperties", driver.cache_properties);
  find(library, "zeContextCreate", driver.context_create);
  find(library, "zeContextGetStatus", driver.context_status);
  find(library, "zeContextDestroy", driver.context_destroy);
  find(library, "zeCommandListCreateImmediate", driver.list_create);
  find(library, "zeCommandListDestroy", driver.list_destroy);
  find(library, "zeCommandListAppendBarrier", driver.append_barrier);
  find(library, "zeCommandListAppendMemoryCopy", driver.append_copy);
  find(library, "zeCommandListAppendLaunchKernel", driver.append_launch);
  find(library, "zeEventPoolCreate", driver.event_pool_create);
  find(library, "zeEventPoolDestroy", driver.event_pool_destroy);
  find(library, "zeEventCreate", driver.event_create);
  find(library, "zeEventDestroy", driver.event_destroy);
  find(library, "zeEventHostSynchronize", driver.event_wait);
  find(library, "zeEventHostReset", driver.event_reset);
  find(library, "zeMemAllocDevice", driver.alloc);
  find(library, "zeMemFree", driver.free);
  find(library, "zeModuleCreate", driver.module_create);
  find(library, "zeModuleDestroy", driver.module_destroy);
  find(library, "zeModuleBuildLogGetString", driver.build_log_text);
  find(library, "zeModuleBuildLogDestroy", driver.build_log_destroy);
  find(library, "zeKernelCreate", driver.kernel_create);
  find(library, "zeKernelDestroy", driver.kernel_destroy);
  find(library, "zeKernelSetGroupSize", driver.kernel_group_size);
  find(library, "zeKernelSetArgumentValue", driver.kernel_argument);
  if (const auto result = driver.init(0); result == error_uninitialised)
    unavailable(
        "Level Zero's loader finds no driver that starts (0x78000001); install Intel's driver for compute, "
        "or name another device");
  else if (result != success)
    unavailable("Level Zero does not start: " + text_of(result));
  return driver;
}

}  // namespace ferrite::level_zero
