// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "driver.h"

#include <dlfcn.h>

#include "ferrite/error.hpp"

namespace ferrite::cuda {

namespace {

constexpr int least_version = 12000;  // whose compiler takes the PTX that is made here

[[noreturn]] void unavailable(const std::string& text) {
  throw Failure(FE_EDEVICE, "ferrite.cuda/driver", text);
}

template <class Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (!function)
    unavailable(std::string("the driver has no function '") + name +
                "'; install NVIDIA's driver for CUDA 12.0 or later");
}

}  // namespace

std::string text_of(const Driver& driver, Result result) {
  const char *name = nullptr, *text = nullptr;
  driver.error_name(result, &name);
  driver.error_text(result, &text);
  return std::string(name ? name : "an unknown error") + " (" + std::to_string(result) + ")" +
         (text ? std::string(": ") + text : "");
}

void check(const Driver& driver, Result result, const char* what) {
  if (result != success)
    throw Failure(FE_EDEVICE, "ferrite.cuda/device",
                  std::string(what) + " failed: " + text_of(driver, result));
}

Driver open_driver(const std::string& library) {
  void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char* reason = dlerror();
    unavailable(std::string(reason ? reason : library + " cannot be opened") +
                "; there is no NVIDIA driver here: install it, or name another device");
  }
  Driver driver;
  find(handle, "cuInit", driver.init);
  find(handle, "cuDriverGetVersion", driver.version);
  find(handle, "cuGetErrorName", driver.error_name);
  find(handle, "cuGetErrorString", driver.error_text);
  find(handle, "cuDeviceGetCount", driver.device_count);
  find(handle, "cuDeviceGet", driver.device_get);
  find(handle, "cuDeviceGetName", driver.device_name);
  find(handle, "cuDeviceGetAttribute", driver.device_attribute);
  find(handle, "cuDeviceTotalMem_v2", driver.device_memory);
  find(handle, "cuDevicePrimaryCtxRetain", driver.context_retain);
  find(handle, "cuCtxSetCurrent", driver.context_set);
  find(handle, "cuMemAlloc_v2", driver.alloc);
  find(handle, "cuMemFree_v2", driver.free);
  find(handle, "cuMemcpyHtoDAsync_v2", driver.copy_to_device);
  find(handle, "cuMemcpyDtoHAsync_v2", driver.copy_to_host);
  find(handle, "cuMemcpyDtoDAsync_v2", driver.copy_on_device);
  find(handle, "cuStreamCreate", driver.stream_create);
  find(handle, "cuStreamSynchronize", driver.stream_synchronise);
  find(handle, "cuModuleLoadDataEx", driver.module_load);
  find(handle, "cuModuleUnload", driver.module_unload);
  find(handle, "cuModuleGetFunction", driver.module_function);
  find(handle, "cuFuncSetAttribute", driver.function_attribute);
  find(handle, "cuLaunchKernel", driver.launch);
  int version = 0;
  if (driver.version(&version) != success || version < least_version)
    unavailable("the driver is for CUDA " + std::to_string(version / 1000) + "." +
                std::to_string(version % 1000 / 10) + "; 12.0 or later is needed: install a newer one");
  if (const auto result = driver.init(0); result != success && result != error_no_device)
    unavailable("the driver does not start: " + text_of(driver, result));
  return driver;
}

}  // namespace ferrite::cuda
