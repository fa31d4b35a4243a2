// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime.h"

#include <array>
#include <utility>

#include "ferrite/gpu_runtime/driver_runtime.h"
#include "target.h"

namespace ferrite::cuda {

namespace {

constexpr int32_t dlpack_cuda = 2;
constexpr int least_version = 12000;       // the first whose compiler accepts this PTX
constexpr int first_with_overlap = 12030;  // the first that can record overlapping launches
constexpr int error_no_device = 100;
constexpr int linker_input_ptx = 1;
constexpr int launch_overlaps = 6;  // CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION

enum Attribute : int { attribute_major = 75, attribute_minor = 76 };
constexpr emitter::DriverAttributes attributes{
    .multiprocessors = 16, .clock_khz = 13, .memory_clock_khz = 36, .bus_bits = 37, .l2_bytes = 38};

/// CUDA_KERNEL_NODE_PARAMS_v2.
struct KernelNode {
  void* function;
  unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes;
  void** arguments;
  void** extra;
  void* kernel;
  void* context;
};

/// CUlaunchAttribute.
struct alignas(8) LaunchAttribute {
  int which;
  int padding;
  union {
    int number;
    std::array<char, 64> bytes;
  };
};
/// CUlaunchConfig.
struct LaunchConfiguration {
  unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes;
  void* stream;
  LaunchAttribute* attributes;
  unsigned count;
};
static_assert(sizeof(LaunchAttribute) == 72 && sizeof(LaunchConfiguration) == 56);

class CudaRuntime final : public emitter::DriverRuntime {
 public:
  CudaRuntime(Host host, std::string library) : DriverRuntime(host), library_(std::move(library)) {}

  std::string id() const override { return "cuda"; }

  std::string refusal(uint32_t number, std::string_view target) override {
    const auto made = parse_device(target).architecture;
    const auto here = parse_device(describe(number).description).architecture;
    const bool exact = made.ends_with('a');
    if (made != here && (exact || number_of(made) > number_of(here)))
      return "it is code for " + made + ", the device is an " + here;
    // Which kernels need that much is only known when they are loaded.
    const auto wanted = shared_bytes_of(made), most = shared_bytes_of(here);
    if (wanted <= most) return "";
    return "it is code for " + made + ", whose blocks may have " + std::to_string(wanted >> 10) +
           " KiB of shared memory; on the device, an " + here + ", they have " + std::to_string(most >> 10);
  }

 protected:
  emitter::Driver open() override {
    const emitter::DriverLibrary library(
        {&library_, 1}, code("driver"),
        "install NVIDIA's driver for CUDA 12.0 or later, or name another device");
    emitter::Driver driver{};
    Result (*init)(unsigned flags) = nullptr;
    Result (*version)(int* version) = nullptr;
    library.find("cuInit", init);
    library.find("cuDriverGetVersion", version);
    int number = 0;
    if (version(&number) != 0 || number < least_version)
      library.unavailable("the driver is for CUDA " + std::to_string(number / 1000) + "." +
                          std::to_string(number % 1000 / 10) + ", which is too old");
    overlaps_ = number >= first_with_overlap;
    library.find("cuGetErrorName", error_name_);
    library.find("cuGetErrorString", error_text_);
    library.find("cuDeviceGetCount", driver.device_count);
    library.find("cuDeviceGet", driver.device_get);
    library.find("cuDeviceGetName", driver.device_name);
    library.find("cuDeviceGetAttribute", driver.device_attribute);
    library.find("cuDeviceTotalMem_v2", driver.device_memory);
    library.find("cuDevicePrimaryCtxRetain", context_retain_);
    library.find("cuCtxSetCurrent", context_set_);
    library.find("cuCtxEnablePeerAccess", peer_enable_);
    library.find("cuMemcpyPeerAsync", copy_peer_);
    library.find("cuMemAlloc_v2", driver.alloc);
    library.find("cuMemFree_v2", driver.free);
    library.find("cuMemcpyHtoDAsync_v2", driver.copy_to_device);
    library.find("cuMemcpyDtoHAsync_v2", driver.copy_to_host);
    library.find("cuMemcpyDtoDAsync_v2", driver.copy_on_device);
    library.find("cuStreamCreate", driver.stream_create);
    library.find("cuStreamDestroy_v2", driver.stream_destroy);
    library.find("cuStreamQuery", driver.stream_query);
    library.find("cuStreamSynchronize", driver.stream_synchronise);
    library.find("cuStreamWaitEvent", driver.stream_wait);
    library.find("cuEventCreate", driver.event_create);
    library.find("cuEventDestroy_v2", driver.event_destroy);
    library.find("cuEventRecord", driver.event_record);
    library.find("cuModuleLoadDataEx", driver.module_load);
    library.find("cuModuleUnload", driver.module_unload);
    library.find("cuModuleGetFunction", driver.module_function);
    library.find("cuFuncSetAttribute", driver.set_function_attribute);
    library.find("cuFuncGetAttribute", driver.function_attribute);
    library.find("cuLaunchKernelEx", launch_);
    library.find("cuMemHostAlloc", driver.host_alloc);
    library.find("cuMemFreeHost", driver.host_free);
    library.find("cuDeviceCanAccessPeer", driver.reaches_peer);
    library.find("cuMemPoolCreate", driver.pools.create);
    library.find("cuMemPoolDestroy", driver.pools.destroy);
    library.find("cuMemPoolSetAttribute", driver.pools.set_attribute);
    library.find("cuMemPoolSetAccess", driver.pools.set_access);
    library.find("cuMemPoolTrimTo", driver.pools.trim);
    library.find("cuMemAllocFromPoolAsync", driver.pools.alloc);
    library.find("cuMemFreeAsync", driver.pools.free);
    library.find("cuStreamBeginCapture_v2", driver.recordings.begin);
    library.find("cuStreamEndCapture", driver.recordings.end);
    library.find("cuStreamGetCaptureInfo_v2", driver.recordings.state);
    library.find("cuGraphInstantiateWithFlags", driver.recordings.instantiate);
    library.find("cuGraphExecKernelNodeSetParams_v2", driver.recordings.set_launch);
    library.find("cuGraphLaunch", driver.recordings.launch);
    library.find("cuGraphExecDestroy", driver.recordings.free_instance);
    library.find("cuGraphDestroy", driver.recordings.free);
    driver.linker.input = linker_input_ptx;
    library.find("cuLinkCreate_v2", driver.linker.create);
    library.find("cuLinkAddData_v2", driver.linker.add);
    library.find("cuLinkComplete", driver.linker.complete);
    library.find("cuLinkDestroy", driver.linker.destroy);
    driver.attributes = attributes;
    const auto result = init(0);
    // The driver then cannot even count devices: report none.
    if (result == error_no_device) driver.device_count = [](int*) -> Result { return error_no_device; };
    if (result != 0 && result != error_no_device)
      library.unavailable("the driver does not start: " + text_of(result));
    return driver;
  }

  std::string text_of(Result result) const override {
    const char *name = nullptr, *text = nullptr;
    error_name_(result, &name);
    error_text_(result, &text);
    return std::string(name ? name : "an unknown error") + " (" + std::to_string(result) + ")" +
           (text ? std::string(": ") + text : "");
  }

  std::string architecture_of(int device) override {
    const int major = attribute(device, attribute_major), minor = attribute(device, attribute_minor);
    return architecture_for(major * 10 + minor);
  }
  int64_t transfers_a_clock(std::string_view) const override { return 2; }

  int32_t dlpack_device() const override { return dlpack_cuda; }

  void enter(int device, Handle& context) override {
    if (!context) check(context_retain_(&context, device), "opening the device's context");
    check(context_set_(context), "entering the device's context");
  }
  Result reach_peer(const Place& peer) override { return peer_enable_(peer.context, 0); }
  Result copy_peer(void* to, const Place& place, const void* from, const Place& peer, size_t bytes,
                   Handle stream) override {
    return copy_peer_(to, place.context, from, peer.context, bytes, stream);
  }
  Result launch(const Launch& launch, bool overlaps, Handle stream) override {
    LaunchAttribute overlap{launch_overlaps, 0, {1}};
    const LaunchConfiguration made{launch.blocks,
                                   1,
                                   1,
                                   launch.threads,
                                   1,
                                   1,
                                   launch.shared_bytes,
                                   stream,
                                   &overlap,
                                   overlaps && overlaps_ ? 1U : 0U};
    return launch_(&made, launch.function, launch.arguments, nullptr);
  }
  Result set_launch(Handle instance, Handle node, const Launch& launch) override {
    const KernelNode made{launch.function,     launch.blocks,    1,       1,       launch.threads, 1, 1,
                          launch.shared_bytes, launch.arguments, nullptr, nullptr, nullptr};
    return driver().recordings.set_launch(instance, node, &made);
  }

 private:
  const std::string library_;
  bool overlaps_ = false;
  Result (*error_name_)(Result, const char** name) = nullptr;
  Result (*error_text_)(Result, const char** text) = nullptr;
  Result (*context_retain_)(Handle*, int device) = nullptr;
  Result (*context_set_)(Handle) = nullptr;
  Result (*peer_enable_)(Handle peer, unsigned flags) = nullptr;
  Result (*launch_)(const LaunchConfiguration* made, Handle function, void** arguments,
                    void** extra) = nullptr;
  Result (*copy_peer_)(void* to, Handle context, const void* from, Handle peer, size_t bytes,
                       Handle stream) = nullptr;
};

}  // namespace

std::unique_ptr<Runtime> make_runtime(Host host, std::string driver_library) {
  return std::make_unique<CudaRuntime>(host, std::move(driver_library));
}

}  // namespace ferrite::cuda
