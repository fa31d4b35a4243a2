// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime.h"

#include <array>
#include <map>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "driver.h"
#include "ferrite/emitter/grid_runtime.h"
#include "ferrite/error.hpp"
#include "target.h"

namespace ferrite::cuda {

namespace {

constexpr int32_t dlpack_cuda = 2;
constexpr uint64_t allocation_alignment = 256;

/// A device with what lasts as long as the process: its context and the stream that everything here runs on, in order.
struct Opened {
  Ordinal ordinal = 0;
  Context context = nullptr;
  Stream stream = nullptr;
};

DevicePointer pointer(const void* data) { return reinterpret_cast<DevicePointer>(data); }

class CudaRuntime final : public emitter::GridRuntime {
 public:
  explicit CudaRuntime(std::string library) : library_(std::move(library)) {}

  std::string id() const override { return "cuda"; }

  uint32_t device_count() override {
    int count = 0;
    const auto& api = driver();
    const auto result = api.device_count(&count);
    if (result == error_no_device) return 0;
    check(api, result, "counting the devices");
    return static_cast<uint32_t>(count);
  }

  DeviceDescription describe(uint32_t number) override {
    const auto& api = driver();
    Ordinal ordinal = 0;
    check(api, api.device_get(&ordinal, static_cast<int>(number)), "opening the device");
    const auto attribute = [&](Attribute which) {
      int value = 0;
      check(api, api.device_attribute(&value, which, ordinal), "asking the device what it has");
      return static_cast<int64_t>(value);
    };
    std::array<char, 256> name{};
    check(api, api.device_name(name.data(), static_cast<int>(name.size()) - 1, ordinal),
          "asking for the device's name");
    size_t bytes = 0;
    check(api, api.device_memory(&bytes, ordinal), "asking for the device's memory");
    Device device;
    const auto major = attribute(attribute_major), minor = attribute(attribute_minor);
    device.architecture = "sm_" + std::to_string(major * 10 + minor);
    // Instructions of one architecture only, which no later one has: those of the ninth and tenth generations.
    if (major == 9 || major == 10) device.architecture += "a";
    device.multiprocessors = attribute(attribute_multiprocessors);
    device.clock_khz = attribute(attribute_clock_khz);
    device.l2_bytes = std::max<int64_t>(1, attribute(attribute_l2_bytes));
    // Twice a clock, in kHz, of so many bits.
    if (const auto rate = attribute(attribute_memory_clock_khz) * attribute(attribute_bus_bits) / 4'000'000;
        rate > 0)
      device.gigabytes_a_second = rate;
    DeviceDescription result;
    result.description = cuda::describe(device);
    result.name = name.data();
    result.dlpack_device = dlpack_cuda;
    result.host_memory = false;
    result.alignment = allocation_alignment;
    result.capacity = bytes;
    return result;
  }

  std::string refusal(uint32_t number, std::string_view target) override {
    const auto made = parse_device(target).architecture;
    const auto here = parse_device(describe(number).description).architecture;
    const bool exact = made.ends_with('a');
    if (made == here || (!exact && number_of(made) <= number_of(here))) return "";
    return "it is code for " + made + ", the device is an " + here;
  }

  void* alloc(uint32_t number, uint64_t bytes) override {
    enter(number);
    DevicePointer data = 0;
    check(driver(), driver().alloc(&data, bytes), "taking memory");
    return reinterpret_cast<void*>(data);
  }
  void free(uint32_t number, void* data) override {
    const auto& device = enter(number);
    check(driver(), driver().stream_synchronise(device.stream), "waiting for the device");
    check(driver(), driver().free(pointer(data)), "giving memory back");
  }

  void synchronise(uint32_t number) override {
    const auto& device = enter(number);
    check(driver(), driver().stream_synchronise(device.stream), "work on the device");
  }

  void copy(const fe_copy_args& args) override {
    const auto& device = enter(args.device);
    const auto& api = driver();
    if (args.bytes == 0) return;
    switch (args.kind) {
      case FE_COPY_TO_DEVICE:
        return check(api, api.copy_to_device(pointer(args.to), args.from, args.bytes, device.stream),
                     "a copy to the device");
      case FE_COPY_TO_HOST:
        check(api, api.copy_to_host(args.to, pointer(args.from), args.bytes, device.stream),
              "a copy from the device");
        return check(api, api.stream_synchronise(device.stream), "work on the device");
      default:
        return check(api, api.copy_on_device(pointer(args.to), pointer(args.from), args.bytes, device.stream),
                     "a copy on the device");
    }
  }

 protected:
  emitter::LoadedCode load(uint32_t number, const emitter::DeviceCode& made) override {
    enter(number);
    const auto& api = driver();
    std::array<char, 4096> log{};
    std::array options = {jit_error_log, jit_error_log_bytes};
    std::array<void*, 2> values = {log.data(), reinterpret_cast<void*>(log.size() - 1)};
    ModuleHandle module = nullptr;
    const auto result = api.module_load(&module, made.code.c_str(), static_cast<unsigned>(options.size()),
                                        options.data(), values.data());
    if (result != success)
      throw Failure(
          FE_EDEVICE, "ferrite.cuda/link",
          "the driver does not take " + made.entry + ": " + text_of(api, result) + "\n" + log.data());
    FunctionHandle function = nullptr;
    if (const auto found = api.module_function(&function, module, made.entry.c_str()); found != success) {
      api.module_unload(module);
      check(api, found, "finding a kernel");
    }
    if (made.shared_bytes > 0)
      check(api,
            api.function_attribute(function, attribute_dynamic_shared, static_cast<int>(made.shared_bytes)),
            "asking for shared memory");
    return {module, function};
  }
  void unload(uint32_t number, std::span<const emitter::LoadedCode> codes) override {
    const auto& api = driver();
    const auto& device = enter(number);
    api.stream_synchronise(device.stream);  // what it says was said to who waited for the work
    for (const auto& code : codes)
      check(api, api.module_unload(static_cast<ModuleHandle>(code.module)), "unloading a module");
  }
  void start(uint32_t number, void* function, const emitter::DeviceCode& code,
             std::span<const void* const> arguments) override {
    const auto& device = enter(number);
    std::vector<const void*> values(arguments.begin(), arguments.end());
    std::vector<void*> places;
    for (auto& value : values) places.push_back(&value);
    const auto& api = driver();
    check(api,
          api.launch(static_cast<FunctionHandle>(function), static_cast<unsigned>(code.blocks), 1, 1,
                     code.threads, 1, 1, code.shared_bytes, device.stream, places.data(), nullptr),
          "launching a kernel");
  }

 private:
  const Driver& driver() {
    std::lock_guard lock(mutex_);
    if (!driver_) driver_ = open_driver(library_);
    return *driver_;
  }

  /// Makes the device's context the thread's own.
  const Opened& enter(uint32_t number) {
    const auto& api = driver();
    std::lock_guard lock(mutex_);
    auto [found, added] = devices_.try_emplace(number);
    auto& device = found->second;
    if (!device.context) {
      check(api, api.device_get(&device.ordinal, static_cast<int>(number)), "opening the device");
      check(api, api.context_retain(&device.context, device.ordinal), "opening the device's context");
    }
    check(api, api.context_set(device.context), "entering the device's context");
    if (!device.stream)
      check(api, api.stream_create(&device.stream, stream_beside_others), "making a stream");
    return device;
  }

  const std::string library_;
  std::mutex mutex_;
  std::optional<Driver> driver_;
  std::map<uint32_t, Opened> devices_;  ///< addresses stay
};

}  // namespace

std::unique_ptr<Runtime> make_runtime(std::string driver_library) {
  return std::make_unique<CudaRuntime>(std::move(driver_library));
}

}  // namespace ferrite::cuda
