// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime.h"

#include <array>
#include <utility>

#include "ferrite/error.hpp"
#include "ferrite/gpu_runtime/driver_runtime.h"
#include "target.h"

namespace ferrite::hip {

namespace {

constexpr int32_t dlpack_rocm = 10;
constexpr int least_version = 5'00'00000;  // major, minor, patch
constexpr int error_no_device = 100, error_invalid_device = 101;
constexpr emitter::DriverAttributes attributes{
    .multiprocessors = 63, .clock_khz = 5, .memory_clock_khz = 60, .bus_bits = 59, .l2_bytes = 19};

/// The functions that fill the structure of a device's properties, newest first, with the offset of the
/// architecture's name (up to a colon): offsetof(hipDeviceProp_t, gcnArchName), compiled with the headers of
/// 5.0, 5.2, 5.7, 6.0 and 6.3. A function's name identifies a layout: 6.0 changed both.
struct Properties {
  const char* function;
  size_t architecture;
};
constexpr std::array properties_by_version = {Properties{"hipGetDevicePropertiesR0600", 1160},
                                              Properties{"hipGetDeviceProperties", 396}};
constexpr size_t properties_bytes = 16384;  // more than any known layout (1,472)

/// hipKernelNodeParams.
struct KernelNode {
  unsigned block_x, block_y, block_z;
  void** extra;
  void* function;
  unsigned grid_x, grid_y, grid_z;
  void** arguments;
  unsigned shared_bytes;
};

class HipRuntime final : public emitter::DriverRuntime {
 public:
  HipRuntime(Host host, std::vector<std::string> libraries)
      : DriverRuntime(host), libraries_(std::move(libraries)) {}

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
    library.find("hipStreamDestroy", driver.stream_destroy);
    library.find("hipStreamQuery", driver.stream_query);
    library.find("hipStreamSynchronize", driver.stream_synchronise);
    library.find("hipStreamWaitEvent", driver.stream_wait);
    library.find("hipEventCreateWithFlags", driver.event_create);
    library.find("hipEventDestroy", driver.event_destroy);
    library.find("hipEventRecord", driver.event_record);
    library.find("hipModuleLoadDataEx", driver.module_load);
    library.find("hipModuleUnload", driver.module_unload);
    library.find("hipModuleGetFunction", driver.module_function);
    library.find("hipFuncSetAttribute", driver.set_function_attribute);
    library.find("hipFuncGetAttribute", driver.function_attribute);
    library.find("hipModuleLaunchKernel", launch_);
    library.find("hipHostMalloc", driver.host_alloc);
    library.find("hipHostFree", driver.host_free);
    library.find("hipDeviceCanAccessPeer", driver.reaches_peer);
    library.find("hipDeviceEnablePeerAccess", peer_enable_);
    library.find("hipMemcpyPeerAsync", copy_peer_);
    find_what_5_0_lacks(library, driver);
    for (const auto& known : properties_by_version)
      if (!properties_ && library.symbol(known.function)) {
        library.find(known.function, properties_);
        architecture_at_ = known.architecture;
      }
    if (!properties_) library.find(properties_by_version.back().function, properties_);
    driver.attributes = attributes;
    const auto result = init(0);
    if (result == error_no_device || result == error_invalid_device) return driver;  // its device count is 0
    if (result != 0) library.unavailable("the HIP runtime does not start: " + text_of(result));
    int number = 0;
    if (version(&number) != 0 || number < least_version)
      library.unavailable("the HIP runtime has version " + std::to_string(number / 10'000'000) + "." +
                          std::to_string(number / 100'000 % 100) + ", which is too old");
    return driver;
  }

  /// Pools and recordings came with versions after 5.0.
  static void find_what_5_0_lacks(const emitter::DriverLibrary& library, emitter::Driver& driver) {
    bool pools = true, recordings = true;
    library.find("hipMemPoolCreate", driver.pools.create, pools);
    library.find("hipMemPoolDestroy", driver.pools.destroy, pools);
    library.find("hipMemPoolSetAttribute", driver.pools.set_attribute, pools);
    library.find("hipMemPoolSetAccess", driver.pools.set_access, pools);
    library.find("hipMemPoolTrimTo", driver.pools.trim, pools);
    library.find("hipMallocFromPoolAsync", driver.pools.alloc, pools);
    library.find("hipFreeAsync", driver.pools.free, pools);
    if (!pools) driver.pools = {};
    library.find("hipStreamBeginCapture", driver.recordings.begin, recordings);
    library.find("hipStreamEndCapture", driver.recordings.end, recordings);
    library.find("hipStreamGetCaptureInfo_v2", driver.recordings.state, recordings);
    library.find("hipGraphInstantiateWithFlags", driver.recordings.instantiate, recordings);
    library.find("hipGraphExecKernelNodeSetParams", driver.recordings.set_launch, recordings);
    library.find("hipGraphLaunch", driver.recordings.launch, recordings);
    library.find("hipGraphExecDestroy", driver.recordings.free_instance, recordings);
    library.find("hipGraphDestroy", driver.recordings.free, recordings);
    if (!recordings) driver.recordings = {};
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
  Result reach_peer(const Place& peer) override { return peer_enable_(peer.device, 0); }
  Result copy_peer(void* to, const Place& place, const void* from, const Place& peer, size_t bytes,
                   Handle stream) override {
    return copy_peer_(to, place.device, from, peer.device, bytes, stream);
  }
  Result launch(const Launch& launch, bool, Handle stream) override {
    return launch_(launch.function, launch.blocks, 1, 1, launch.threads, 1, 1, launch.shared_bytes, stream,
                   launch.arguments, nullptr);
  }
  Result set_launch(Handle instance, Handle node, const Launch& launch) override {
    const KernelNode made{launch.threads, 1, 1, nullptr,          launch.function,
                          launch.blocks,  1, 1, launch.arguments, launch.shared_bytes};
    return driver().recordings.set_launch(instance, node, &made);
  }

 private:
  const std::vector<std::string> libraries_;
  const char* (*error_name_)(Result) = nullptr;
  const char* (*error_text_)(Result) = nullptr;
  Result (*properties_)(void* properties, int device) = nullptr;
  size_t architecture_at_ = 0;
  Result (*device_set_)(int device) = nullptr;
  Result (*peer_enable_)(int peer, unsigned flags) = nullptr;
  Result (*launch_)(Handle function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                    unsigned block_y, unsigned block_z, unsigned shared_bytes, Handle stream,
                    void** arguments, void** extra) = nullptr;
  Result (*copy_peer_)(void* to, int device, const void* from, int peer, size_t bytes,
                       Handle stream) = nullptr;
};

}  // namespace

std::unique_ptr<Runtime> make_runtime(Host host, std::vector<std::string> libraries) {
  return std::make_unique<HipRuntime>(host, std::move(libraries));
}

}  // namespace ferrite::hip
