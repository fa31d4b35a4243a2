// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "driver.h"
#include "ferrite/error.hpp"
#include "ferrite/gpu_runtime/gpu_runtime.h"
#include "target.h"

namespace ferrite::level_zero {

namespace {

constexpr int32_t dlpack_oneapi = 14;
constexpr uint64_t allocation_alignment = 256;
constexpr uint32_t least_group = 256;        // threads; contractions have so many
constexpr uint32_t least_spirv = 0x1'0002u;  // 1.2

// Members are destroyed in reverse order.

struct Signal {
  Owned<EventPoolTag> pool;
  Owned<EventTag> event;
};

struct Code {
  Owned<ModuleTag> module;
  Owned<KernelTag> kernel;
};

/// A device, with its objects, which are created on first use and last as long as the runtime.
struct OpenDevice {
  DriverHandle driver = nullptr;
  DeviceHandle device = nullptr;
  // Held while the members below are in use, and while a kernel gets its arguments, which are state of the
  // kernel.
  std::mutex mutex;
  bool lost = false;  // no further calls are made
  std::string fault;  // error of work since the last status()
  Owned<ContextTag> context;
  Owned<ListTag> list;  // all work, in order
  Signal done;          // unsignalled, and no appended command will signal it
  // Objects that work may still use because waiting for it failed.
  struct Used {
    std::vector<Signal> signals;
    std::vector<Code> codes;
    std::vector<OwnedMemory> memory;
  } used;
};

/// Any call may report that the device is lost; not every driver repeats it in the context's status.
void note(OpenDevice& device, Result result) {
  if (result == error_device_lost) device.lost = true;
}

/// Like check(), for a call on the device.
void check_on(OpenDevice& device, Result result, const char* what) {
  note(device, result);
  check(result, what);
}

class LevelZeroRuntime final : public emitter::GpuRuntime {
 public:
  LevelZeroRuntime(Host host, std::string library) : GpuRuntime(host), library_(std::move(library)) {}
  LevelZeroRuntime(const LevelZeroRuntime&) = delete;
  /// Waits, since the work must end before the objects that it uses. Errors were reported to the callers that
  /// waited.
  ~LevelZeroRuntime() override {
    for (const auto& device : devices_)
      if (device->list) finish(*device);
  }

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
      // Two transfers per clock cycle.
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
    check_on(
        device,
        api_.alloc(device.context.get(), &description, bytes, allocation_alignment, device.device, &data),
        "taking memory");
    return data;
  }
  void free(uint32_t number, void* data) override {
    const auto [device, lock] = hold(number);
    OwnedMemory memory(data, {api_.free, device.context.get()});
    if (is_used(device))
      device.used.memory.push_back(std::move(memory));
    else
      check_on(device, api_.free(device.context.get(), memory.release()), "giving memory back");
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
    check_on(device, api_.append_copy(device.list.get(), args.to, args.from, args.bytes, nullptr, 0, nullptr),
             what);
    // The caller may reuse host memory as soon as this returns, so wait.
    args.kind == FE_COPY_ON_DEVICE ? order(device) : wait(device);
  }

  DeviceStatus status(uint32_t number) override {
    const auto [device, lock] = hold(number);
    if (device.context) note(device, api_.context_status(device.context.get()));
    auto fault = std::exchange(device.fault, {});
    if (device.lost) return {FE_DEVICE_LOST, text_of(error_device_lost)};
    return fault.empty() ? DeviceStatus() : DeviceStatus{FE_DEVICE_FAULT, std::move(fault)};
  }

 protected:
  emitter::LoadedCode load(uint32_t number, const emitter::DeviceCode& made) override {
    const auto [device, lock] = enter(number);
    ModuleDescription description;
    description.bytes = made.code.size();
    description.code = made.code.data();
    ModuleHandle module = nullptr;
    BuildLog log = nullptr;
    auto result = api_.module_create(device.context.get(), device.device, &description, &module, &log);
    note(device, result);
    const auto said = text_of_log(log);
    if (result != success) refuse(made.entry, text_of(result) + (said.empty() ? "" : "\n") + said);
    Code code{own(module), {}};
    KernelDescription wanted;
    wanted.name = made.entry.c_str();
    Kernel kernel = nullptr;
    result = api_.kernel_create(module, &wanted, &kernel);
    if (result == success) {
      code.kernel = own(kernel);
      result = api_.kernel_group_size(kernel, made.threads, 1, 1);
    }
    note(device, result);
    if (result != success) refuse(made.entry, text_of(result));
    return {code.module.release(), code.kernel.release(), {}};
  }
  void unload(uint32_t number, std::span<const emitter::LoadedCode> codes) override {
    if (codes.empty()) return;
    const auto [device, lock] = hold(number);
    std::vector<Code> ended;
    for (const auto& code : codes)
      ended.push_back({own(static_cast<ModuleHandle>(code.module)), own(static_cast<Kernel>(code.function))});
    if (is_used(device)) {
      std::ranges::move(ended, std::back_inserter(device.used.codes));
      return;
    }
    auto first = success;
    for (auto& code : ended)
      for (const auto result :
           {api_.kernel_destroy(code.kernel.release()), api_.module_destroy(code.module.release())})
        if (first == success) first = result;
    check_on(device, first, "unloading a module");
  }
  void start(uint32_t number, void*, void* function, const emitter::DeviceCode& code, bool,
             std::span<const void* const> arguments) override {
    if (code.blocks == 0) return;
    const auto [device, lock] = enter(number);
    auto* const kernel = static_cast<Kernel>(function);
    for (uint32_t k = 0; k < arguments.size(); ++k)
      check_on(device, api_.kernel_argument(kernel, k, sizeof(void*), &arguments[k]),
               "giving a kernel its arguments");
    const GroupCount groups{static_cast<uint32_t>(code.blocks), 1, 1};
    check_on(device, api_.append_launch(device.list.get(), kernel, &groups, nullptr, 0, nullptr),
             "launching a kernel");
    order(device);
  }

 private:
  struct Entered {
    OpenDevice& device;
    std::unique_lock<std::mutex> lock;
  };

  /// Finds the devices, once. A failure is repeated to every caller.
  void open() {
    std::lock_guard lock(mutex_);
    if (opened_) return;
    api_ = open_driver(library_);
    uint32_t count = 0;
    check(api_.driver_get(&count, nullptr), "counting the drivers");
    std::vector<DriverHandle> drivers(count);
    if (count > 0) check(api_.driver_get(&count, drivers.data()), "listing the drivers");
    std::vector<std::unique_ptr<OpenDevice>> found;
    for (auto* driver : drivers) {
      count = 0;
      check(api_.device_get(driver, &count, nullptr), "counting the devices");
      std::vector<DeviceHandle> devices(count);
      if (count > 0) check(api_.device_get(driver, &count, devices.data()), "listing the devices");
      for (auto* device : devices) {
        DeviceProperties properties{};
        check(api_.device_properties(device, &properties), "asking what the device is");
        if (properties.kind != device_kind_gpu) continue;
        found.push_back(std::make_unique<OpenDevice>());
        found.back()->driver = driver;
        found.back()->device = device;
      }
    }
    devices_ = std::move(found);
    opened_ = true;
  }

  /// The device for this thread alone, until the lock is released.
  Entered hold(uint32_t number) {
    open();
    auto& device = *devices_.at(number);
    return {device, std::unique_lock(device.mutex)};
  }

  /// The same, ready for work. On a lost device, some calls may still report success, so refuse early.
  Entered enter(uint32_t number) {
    auto entered = hold(number);
    auto& device = entered.device;
    if (device.lost) check(error_device_lost, "using the device");
    if (!device.context) {
      const ContextDescription description;
      Context made = nullptr;
      check_on(device, api_.context_create(device.driver, &description, &made),
               "opening the device's context");
      device.context = {made, {api_.context_destroy}};
    }
    if (!device.list) {
      QueueDescription description;
      description.ordinal = computing_queues(device.device);
      description.mode = queue_is_asynchronous;
      List made = nullptr;
      check_on(device, api_.list_create(device.context.get(), device.device, &description, &made),
               "making a list of commands");
      device.list = {made, {api_.list_destroy}};
    }
    return entered;
  }

  uint32_t computing_queues(DeviceHandle device) {
    const auto groups =
        listed<QueueGroupProperties>(api_.queue_group_properties, device, "asking for the device's queues");
    for (uint32_t k = 0; k < groups.size(); ++k)
      if ((groups[k].flags & queue_group_computes) != 0) return k;
    throw Failure(FE_EDEVICE, "ferrite.level_zero/device",
                  "the device has no queue that computes; name another device");
  }

  Owned<ModuleTag> own(ModuleHandle module) { return {module, {api_.module_destroy}}; }
  Owned<KernelTag> own(Kernel kernel) { return {kernel, {api_.kernel_destroy}}; }

  /// Commands of a list may run in parallel; a barrier makes each wait for its predecessors. Flags for
  /// in-order lists are newer than many drivers.
  void order(OpenDevice& device) {
    check_on(device, api_.append_barrier(device.list.get(), nullptr, 0, nullptr),
             "ordering work on the device");
  }

  /// Creates the event that a wait uses.
  Result make_signal(OpenDevice& device) {
    EventPoolDescription pool_description;
    pool_description.flags = events_are_seen_by_host;
    EventPool pool = nullptr;
    if (const auto result =
            api_.event_pool_create(device.context.get(), &pool_description, 1, &device.device, &pool);
        result != success)
      return result;
    Signal made{{pool, {api_.event_pool_destroy}}, {}};
    EventDescription description;
    description.signal_scope = description.wait_scope = scope_of_host;
    Event event = nullptr;
    if (const auto result = api_.event_create(pool, &description, &event); result != success) return result;
    made.event = {event, {api_.event_destroy}};
    device.done = std::move(made);
    return success;
  }

  /// Waits until all work is done, and frees the objects that were kept for it. If waiting fails, the work
  /// may still signal the event later, so the next wait uses a new one.
  Result finish(OpenDevice& device) {
    if (device.lost) return error_device_lost;
    auto result = device.done.event ? success : make_signal(device);
    if (result == success)
      result = api_.append_barrier(device.list.get(), device.done.event.get(), 0, nullptr);
    if (result == success)
      result = api_.event_wait(device.done.event.get(), std::numeric_limits<uint64_t>::max());
    if (result == success) {
      device.used = {};
      result = api_.event_reset(device.done.event.get());
    }
    if (result == success) return result;
    if (device.done.event) device.used.signals.push_back(std::move(device.done));
    device.fault = text_of(result);
    note(device, result);
    return result;
  }
  void wait(OpenDevice& device) { check_on(device, finish(device), "work on the device"); }

  /// Whether earlier work may still use its objects. Errors of the work are reported to callers that wait for
  /// it, not to those that free objects.
  bool is_used(OpenDevice& device) { return finish(device) != success && !device.lost; }

  template <class Properties>
  std::vector<Properties> listed(Result (*function)(DeviceHandle, uint32_t*, Properties*),
                                 DeviceHandle device, const char* what) {
    uint32_t count = 0;
    const auto result = function(device, &count, nullptr);
    if (result == error_unsupported_feature) return {};  // not all drivers report this
    check(result, what);
    std::vector<Properties> properties(count, Properties{});
    if (count > 0) check(function(device, &count, properties.data()), what);
    return properties;
  }

  /// The driver's messages about the code that it built; destroys the log.
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
  std::vector<std::unique_ptr<OpenDevice>> devices_;  // written once
};

}  // namespace

std::unique_ptr<Runtime> make_runtime(Host host, std::string loader) {
  return std::make_unique<LevelZeroRuntime>(host, std::move(loader));
}

}  // namespace ferrite::level_zero
