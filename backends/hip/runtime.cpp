// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime.h"

#include <array>
#include <utility>

#include "ferrite/emitter/driver_runtime.h"
#include "ferrite/error.hpp"
#include "target.h"

namespace ferrite::hip {

namespace {

constexpr int32_t dlpack_rocm = 10;
constexpr int least_version = 5'00'00000;  // major, minor, patch
constexpr int error_no_device = 100, error_invalid_device = 101;
constexpr emitter::DriverAttributes attributes{
    .multiprocessors = 63, .clock_khz = 5, .memory_clock_khz = 60, .bus_bits = 59, .l2_bytes = 19};

/// The functions that fill a structure of a device's properties, the newest first, and where the architecture's name, up to a colon, is in
/// it: offsetof(hipDeviceProp_t, gcnArchName), compiled with the headers of 5.0, 5.2, 5.7, 6.0 and 6.3. A function's name stands for one
/// layout: 6.0 changed both.
struct Properties {
  const char* function;
  size_t architecture;
};
constexpr std::array properties_by_version = {Properties{"hipGetDevicePropertiesR0600", 1160},
                                              Properties{"hipGetDeviceProperties", 396}};
constexpr size_t properties_bytes = 16384;  // more than any layout has: 1,472 as yet

class HipRuntime final : public emitter::DriverRuntime {
 public:
  explicit HipRuntime(std::vector<std::string> libraries) : libraries_(std::move(libraries)) {}

  std::string id() const override { return "hip"; }

  std::string refusal(uint32_t number, std::string_view target) override {
    const auto made = parse_device(target).architecture;
    const auto here = parse_device(describe(number).description).architecture;
    return made == here ? "" : "it is code for " + made + ", the device is a " + here;
  }

 protected:
  emitter::Driver open() override {
    const emitter::DriverLibrary library(libraries_, code("driver"),
                                         "install AMD's HIP runtime 5.0 or later, or name another device");
    emitter::Driver driver{};
    Result (*init)(unsigned flags) = nullptr;
    Result (*version)(int* version) = nullptr;
    library.find("hipInit", init);
    library.find("hipRuntimeGetVersion", version);
    library.find("hipGetErrorName", error_name_);
    library.find("hipGetErrorString", error_text_);
    library.find("hipGetDeviceCount", driver.device_count);
    library.find("hipDeviceGet", driver.device_get);
    library.find("hipDeviceGetName", driver.device_name);
    library.find("hipDeviceGetAttribute", driver.device_attribute);
    library.find("hipDeviceTotalMem", driver.device_memory);
    library.find("hipSetDevice", device_set_);
    library.find("hipMalloc", driver.alloc);
    library.find("hipFree", driver.free);
    library.find("hipMemcpyHtoDAsync", driver.copy_to_device);
    library.find("hipMemcpyDtoHAsync", driver.copy_to_host);
    library.find("hipMemcpyDtoDAsync", driver.copy_on_device);
    library.find("hipStreamCreateWithFlags", driver.stream_create);
    library.find("hipStreamSynchronize", driver.stream_synchronise);
    library.find("hipModuleLoadDataEx", driver.module_load);
    library.find("hipModuleUnload", driver.module_unload);
    library.find("hipModuleGetFunction", driver.module_function);
    library.find("hipFuncSetAttribute", driver.function_attribute);
    library.find("hipModuleLaunchKernel", driver.launch);
    for (const auto& known : properties_by_version)
      if (!properties_ && library.symbol(known.function)) {
        library.find(known.function, properties_);
        architecture_at_ = known.architecture;
      }
    if (!properties_) library.find(properties_by_version.back().function, properties_);
    driver.attributes = attributes;
    const auto result = init(0);
    if (result == error_no_device || result == error_invalid_device) return driver;  // whose count is 0
    if (result != 0) library.unavailable("the HIP runtime does not start: " + text_of(result));
    int number = 0;
    if (version(&number) != 0 || number < least_version)
      library.unavailable("the HIP runtime has version " + std::to_string(number / 10'000'000) + "." +
                          std::to_string(number / 100'000 % 100) + ", which is too old");
    return driver;
  }

  std::string text_of(Result result) const override {
    const char *name = error_name_(result), *text = error_text_(result);
    return std::string(name ? name : "an unknown error") + " (" + std::to_string(result) + ")" +
           (text ? std::string(": ") + text : "");
  }

  std::string architecture_of(int device) override {
    std::array<char, properties_bytes> properties{};
    check(properties_(properties.data(), device), "asking for the device's properties");
    const std::string name = properties.data() + architecture_at_;
    if (!name.starts_with("gfx"))
      throw Failure(FE_EDEVICE, code("device"),
                    "the HIP runtime says of the architecture '" + name + "', which is no gfx name");
    return name.substr(0, name.find(':'));
  }
  int64_t transfers_a_clock(std::string_view architecture) const override {
    return hip::transfers_a_clock(architecture);
  }

  int32_t dlpack_device() const override { return dlpack_rocm; }

  void enter(int device, Handle&) override { check(device_set_(device), "choosing the device"); }

 private:
  const std::vector<std::string> libraries_;
  const char* (*error_name_)(Result) = nullptr;
  const char* (*error_text_)(Result) = nullptr;
  Result (*properties_)(void* properties, int device) = nullptr;
  size_t architecture_at_ = 0;
  Result (*device_set_)(int device) = nullptr;
};

}  // namespace

std::unique_ptr<Runtime> make_runtime(std::vector<std::string> libraries) {
  return std::make_unique<HipRuntime>(std::move(libraries));
}

}  // namespace ferrite::hip
