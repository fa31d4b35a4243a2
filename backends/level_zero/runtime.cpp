// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "driver.h"
#include "ferrite/emitter/grid_runtime.h"
#include "ferrite/error.hpp"
#include "target.h"

namespace ferrite::level_zero {

namespace {

constexpr int32_t dlpack_oneapi = 14;
constexpr uint64_t allocation_alignment = 256;
constexpr uint32_t least_group = 256;        // threads, which contractions have
constexpr uint32_t least_spirv = 0x1'0002u;  // 1.2

/// A device, and what is opened when it is first used and lasts as long as the process.
struct Opened {
  DriverHandle driver = nullptr;
  DeviceHandle device = nullptr;
  // Held while the members below are used, and while a kernel of the device is given its arguments, which are the kernel's state.
  std::mutex mutex;
  Context context = nullptr;
  List list = nullptr;  // all work, in order
  Event done = nullptr;
};

class LevelZeroRuntime final : public emitter::GridRuntime {
 public:
  LevelZeroRuntime(Host host, std::string library) : GridRuntime(host), library_(std::move(library)) {}

  std::string id() const override { return "level_zero"; }

  uint32_t device_count() override {
    open();
    return static_cast<uint32_t>(devices_.size());
  }

  DeviceDescription describe(uint32_t number) override {
    open();
    auto* const handle = devices_.at(number)->device;
    DeviceProperties properties{};
    check(api_.device_properties(handle, &properties), "asking what the device is");
    const std::string name(properties.name.data());
    ComputeProperties compute{};
    check(api_.compute_properties(handle, &compute), "asking what the device computes");
    ModuleProperties module{};
    check(api_.module_properties(handle, &module), "asking what code the device takes");
    constexpr auto needed = module_has_f16 | module_has_atomics_64;
    if (module.spirv_version < least_spirv || (module.flags & needed) != needed ||
        compute.group_size < least_group)
      throw Failure(FE_EDEVICE, "ferrite.level_zero/device",
                    "'" + name +
                        "' does not do: needed are SPIR-V 1.2, half precision, atomic operations of 64 bits "
                        "and groups of 256 threads; install a newer driver, or name another device");
    Device device;
    const auto set = [](int64_t& place, uint64_t value) {
      if (value > 0) place = static_cast<int64_t>(value);
    };
    set(device.units, uint64_t{properties.slices} * properties.subslices_per_slice);
    set(device.lanes, uint64_t{properties.eus_per_subslice} * properties.eu_lanes);
    set(device.clock_khz, uint64_t{properties.core_clock_mhz} * 1000);
    set(device.local_bytes, compute.local_bytes);
    const auto memories =
        listed<MemoryProperties>(api_.memory_properties, handle, "asking for the device's memory");
    uint64_t bytes = 0;
    for (const auto& memory : memories) {
      bytes += memory.bytes;
      // Twice a clock, of so many bits.
      set(device.gigabytes_a_second, uint64_t{memory.clock_mhz} * memory.bus_bits / 4000);
    }
    uint64_t cache = 0;
    for (const auto& level :
         listed<CacheProperties>(api_.cache_properties, handle, "asking for the device's caches"))
      cache = std::max<uint64_t>(cache, level.bytes);
    set(device.l2_bytes, cache);
    device.f64 = (module.flags & module_has_f64) != 0;
    DeviceDescription result;
    result.description = level_zero::describe(device);
    result.name = name;
    result.dlpack_device = dlpack_oneapi;
    result.host_memory = false;
    result.alignment = allocation_alignment;
    result.capacity = bytes;
    return result;
  }

  std::string refusal(uint32_t number, std::string_view target) override {
    const auto made = parse_device(target);
    const auto here = parse_device(describe(number).description);
    if (made.f64 && !here.f64) return "it is code for a device with f64, this one has none";
    if (made.local_bytes > here.local_bytes)
      return "it is code for groups of " + std::to_string(made.local_bytes) +
             " bytes of local memory, the device has " + std::to_string(here.local_bytes);
    return "";
  }

  void* alloc(uint32_t number, uint64_t bytes) override {
    const auto [device, lock] = enter(number);
    void* data = nullptr;
    const AllocationDescription description;
    check(api_.alloc(device.context, &description, bytes, allocation_alignment, device.device, &data),
          "taking memory");
    return data;
  }
  void free(uint32_t number, void* data) override {
    const auto [device, lock] = enter(number);
    wait(device);
    check(api_.free(device.context, data), "giving memory back");
  }

  void synchronise(uint32_t number) override {
    const auto [device, lock] = enter(number);
    wait(device);
  }

  void copy(const fe_copy_args& args) override {
    if (args.bytes == 0) return;
    const auto [device, lock] = enter(args.device);
    const char* what = args.kind == FE_COPY_TO_DEVICE ? "a copy to the device"
                       : args.kind == FE_COPY_TO_HOST ? "a copy from the device"
                                                      : "a copy on the device";
    check(api_.append_copy(device.list, args.to, args.from, args.bytes, nullptr, 0, nullptr), what);
    // Memory of the host is the caller's again when this returns.
    args.kind == FE_COPY_ON_DEVICE ? order(device) : wait(device);
  }

 protected:
  emitter::LoadedCode load(uint32_t number, const emitter::DeviceCode& made) override {
    const auto [device, lock] = enter(number);
    ModuleDescription description;
    description.bytes = made.code.size();
    description.code = made.code.data();
    ModuleHandle module = nullptr;
    BuildLog log = nullptr;
    const auto result = api_.module_create(device.context, device.device, &description, &module, &log);
    const auto said = text_of_log(log);
    if (result != success) refuse(made.entry, text_of(result) + "\n" + said);
    KernelDescription wanted;
    wanted.name = made.entry.c_str();
    Kernel kernel = nullptr;
    auto made_kernel = api_.kernel_create(module, &wanted, &kernel);
    if (made_kernel == success) made_kernel = api_.kernel_group_size(kernel, made.threads, 1, 1);
    if (made_kernel != success) {
      if (kernel) api_.kernel_destroy(kernel);
      api_.module_destroy(module);
      refuse(made.entry, text_of(made_kernel));
    }
    return {module, kernel, {}};
  }
  void unload(uint32_t number, std::span<const emitter::LoadedCode> codes) override {
    if (codes.empty()) return;
    const auto [device, lock] = enter(number);
    // What work says of itself was said to who waited for it.
    if (append_wait(device) != success) return;
    auto first = success;
    for (const auto& code : codes)
      for (const auto result : {api_.kernel_destroy(static_cast<Kernel>(code.function)),
                                api_.module_destroy(static_cast<ModuleHandle>(code.module))})
        if (first == success) first = result;
    check(first, "unloading a module");
  }
  void start(uint32_t number, void*, void* function, const emitter::DeviceCode& code,
             std::span<const void* const> arguments) override {
    if (code.blocks == 0) return;
    const auto [device, lock] = enter(number);
    auto* const kernel = static_cast<Kernel>(function);
    for (uint32_t k = 0; k < arguments.size(); ++k)
      check(api_.kernel_argument(kernel, k, sizeof(void*), &arguments[k]), "giving a kernel its arguments");
    const GroupCount groups{static_cast<uint32_t>(code.blocks), 1, 1};
    check(api_.append_launch(device.list, kernel, &groups, nullptr, 0, nullptr), "launching a kernel");
    order(device);
  }

 private:
  struct Entered {
    Opened& device;
    std::unique_lock<std::mutex> lock;
  };

  /// Finds the devices, once. A failure is told again to everyone who asks.
  void open() {
    std::lock_guard lock(mutex_);
    if (opened_) return;
    api_ = open_driver(library_);
    uint32_t count = 0;
    check(api_.driver_get(&count, nullptr), "counting the drivers");
    std::vector<DriverHandle> drivers(count);
    if (count > 0) check(api_.driver_get(&count, drivers.data()), "listing the drivers");
    std::vector<std::unique_ptr<Opened>> found;
    for (auto* driver : drivers) {
      count = 0;
      check(api_.device_get(driver, &count, nullptr), "counting the devices");
      std::vector<DeviceHandle> devices(count);
      if (count > 0) check(api_.device_get(driver, &count, devices.data()), "listing the devices");
      for (auto* device : devices) {
        DeviceProperties properties{};
        check(api_.device_properties(device, &properties), "asking what the device is");
        if (properties.kind != device_kind_gpu) continue;
        found.push_back(std::make_unique<Opened>());
        found.back()->driver = driver;
        found.back()->device = device;
      }
    }
    devices_ = std::move(found);
    opened_ = true;
  }

  /// The device, to be used by this thread alone as long as the lock is held.
  Entered enter(uint32_t number) {
    open();
    auto& device = *devices_.at(number);
    std::unique_lock lock(device.mutex);
    if (!device.context) {
      const ContextDescription description;
      check(api_.context_create(device.driver, &description, &device.context),
            "opening the device's context");
    }
    if (!device.list) {
      QueueDescription description;
      description.ordinal = computing_queues(device.device);
      description.mode = queue_is_asynchronous;
      check(api_.list_create(device.context, device.device, &description, &device.list),
            "making a list of commands");
    }
    if (!device.done) {
      EventPoolDescription pool_description;
      pool_description.flags = events_are_seen_by_host;
      EventPool pool = nullptr;
      check(api_.event_pool_create(device.context, &pool_description, 1, &device.device, &pool),
            "making events");
      EventDescription description;
      description.signal_scope = description.wait_scope = scope_of_host;
      check(api_.event_create(pool, &description, &device.done), "making an event");
    }
    return {device, std::move(lock)};
  }

  uint32_t computing_queues(DeviceHandle device) {
    const auto groups =
        listed<QueueGroupProperties>(api_.queue_group_properties, device, "asking for the device's queues");
    for (uint32_t k = 0; k < groups.size(); ++k)
      if ((groups[k].flags & queue_group_computes) != 0) return k;
    throw Failure(FE_EDEVICE, "ferrite.level_zero/device",
                  "the device has no queue that computes; name another device");
  }

  /// A list's commands may run at once; each one here waits for those before it. Flags that order a list by itself are younger than
  /// many drivers.
  void order(const Opened& device) {
    check(api_.append_barrier(device.list, nullptr, 0, nullptr), "ordering work on the device");
  }

  /// Waits until all work is done.
  Result append_wait(const Opened& device) {
    if (const auto result = api_.append_barrier(device.list, device.done, 0, nullptr); result != success)
      return result;
    if (const auto result = api_.event_wait(device.done, std::numeric_limits<uint64_t>::max());
        result != success)
      return result;
    return api_.event_reset(device.done);
  }
  void wait(const Opened& device) { check(append_wait(device), "work on the device"); }

  template <class Properties>
  std::vector<Properties> listed(Result (*function)(DeviceHandle, uint32_t*, Properties*),
                                 DeviceHandle device, const char* what) {
    uint32_t count = 0;
    const auto result = function(device, &count, nullptr);
    if (result == error_unsupported_feature) return {};  // not all drivers tell
    check(result, what);
    std::vector<Properties> properties(count, Properties{});
    if (count > 0) check(function(device, &count, properties.data()), what);
    return properties;
  }

  /// What the driver says of the code that it built; the log ends.
  std::string text_of_log(BuildLog log) {
    if (!log) return "";
    size_t bytes = 0;
    std::string text;
    if (api_.build_log_text(log, &bytes, nullptr) == success && bytes > 0) {
      text.resize(bytes);
      if (api_.build_log_text(log, &bytes, text.data()) != success) text.clear();
    }
    api_.build_log_destroy(log);
    return text.substr(0, text.find('\0'));
  }

  [[noreturn]] static void refuse(const std::string& entry, const std::string& why) {
    throw Failure(FE_EDEVICE, "ferrite.level_zero/link", "the driver does not take " + entry + ": " + why);
  }

  const std::string library_;
  std::mutex mutex_;
  bool opened_ = false;
  Driver api_{};
  std::vector<std::unique_ptr<Opened>> devices_;  // written once
};

}  // namespace

std::unique_ptr<Runtime> make_runtime(Host host, std::string loader) {
  return std::make_unique<LevelZeroRuntime>(host, std::move(loader));
}

}  // namespace ferrite::level_zero
