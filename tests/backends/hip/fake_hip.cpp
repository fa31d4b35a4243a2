// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A stand-in for AMD's HIP runtime without a device. FAKE_DRIVER_ARCHITECTURE is the device's architecture.
// The layout of its properties is that of 6.0 and later; fake_hip_5, from the same source, has the earlier
// one.
#include <elf.h>

#include "../fake_driver.h"

using fake::Result;

namespace {

#ifdef FAKE_HIP_5
constexpr size_t architecture_at = 396, properties_bytes = 792;
#define FAKE_HIP_PROPERTIES hipGetDeviceProperties
#else
constexpr size_t architecture_at = 1160, properties_bytes = 1472;
#define FAKE_HIP_PROPERTIES hipGetDevicePropertiesR0600
#endif

bool is_without_device() { return fake::number("FAKE_DRIVER_DEVICES", 1) == 0; }

/// The size of a code object: it ends with its section table.
std::string code_of(const void* image) {
  Elf64_Ehdr head;
  std::memcpy(&head, image, sizeof head);
  if (std::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_machine != EM_AMDGPU || head.e_type != ET_DYN)
    return "";
  return {static_cast<const char*>(image), head.e_shoff + size_t{head.e_shnum} * head.e_shentsize};
}

/// The name of the kernel for whose descriptor the code has a symbol.
std::string kernel_of(const std::string& code) {
  const std::string ending = ".kd";
  const auto end = code.find(ending + '\0');
  if (end == std::string::npos) return "";
  const auto start = code.rfind('\0', end);
  return code.substr(start + 1, end - start - 1);
}

}  // namespace

extern "C" {

Result hipInit(unsigned) {
  constexpr Result invalid_device = 101;
  const auto failed = fake::called("hipInit", fake::unknown, "");
  return is_without_device() ? invalid_device : failed;
}
Result hipRuntimeGetVersion(int* version) {
  *version = static_cast<int>(fake::number("FAKE_DRIVER_VERSION", 60342133));
  return is_without_device() ? fake::no_device : fake::success;
}
const char* hipGetErrorName(Result error) {
  return error == fake::out_of_memory     ? "hipErrorOutOfMemory"
         : error == fake::no_device       ? "hipErrorNoDevice"
         : error == fake::invalid_image   ? "hipErrorInvalidImage"
         : error == fake::illegal_address ? "hipErrorIllegalAddress"
                                          : "hipErrorUnknown";
}
const char* hipGetErrorString(Result error) { return fake::text_of(error); }
Result hipGetDeviceCount(int* count) { return fake::device_count(count); }
Result hipDeviceGet(int* device, int number) {
  *device = number;
  return fake::success;
}
Result hipDeviceGetName(char* name, int length, int) { return fake::device_name(name, length); }
Result hipDeviceGetAttribute(int* value, int attribute, int) {
  return fake::attribute(value, attribute,
                         {{5, 2100000}, {19, 4194304}, {59, 8192}, {60, 1300000}, {63, 304}});
}
Result hipDeviceTotalMem(size_t* bytes, int) { return fake::device_memory(bytes); }
Result FAKE_HIP_PROPERTIES(char* properties, int) {
  std::memset(properties, 0, properties_bytes);
  std::strcpy(properties, "A Fake Device");
  std::strcpy(properties + architecture_at,
              fake::setting("FAKE_DRIVER_ARCHITECTURE", "gfx942:sramecc+:xnack-").c_str());
  return fake::success;
}
Result hipSetDevice(int device) { return fake::called("hipSetDevice", fake::unknown, " %d", device); }
Result hipMalloc(void** data, size_t bytes) { return fake::alloc("hipMalloc", data, bytes); }
Result hipFree(void* data) { return fake::free("hipFree", data); }
Result hipHostMalloc(void** data, size_t bytes, unsigned) {
  return fake::host_alloc("hipHostMalloc", data, bytes);
}
Result hipHostFree(void* data) { return fake::host_free("hipHostFree", data); }
Result hipMemcpyHtoDAsync(void* to, const void* from, size_t bytes, void* stream) {
  return fake::copy("hipMemcpyHtoDAsync", to, from, bytes, stream, from);
}
Result hipMemcpyDtoHAsync(void* to, const void* from, size_t bytes, void* stream) {
  return fake::copy("hipMemcpyDtoHAsync", to, from, bytes, stream, to);
}
Result hipMemcpyDtoDAsync(void* to, const void* from, size_t bytes, void* stream) {
  return fake::copy("hipMemcpyDtoDAsync", to, from, bytes, stream);
}
Result hipMemcpyPeerAsync(void* to, int, const void* from, int, size_t bytes, void* stream) {
  return fake::copy("hipMemcpyPeerAsync", to, from, bytes, stream);
}
Result hipDeviceCanAccessPeer(int* can, int, int) {
  *can = static_cast<int>(fake::number("FAKE_DRIVER_PEERS", 1));
  return fake::success;
}
Result hipDeviceEnablePeerAccess(int peer, unsigned) {
  return fake::called("hipDeviceEnablePeerAccess", fake::unknown, " %d", peer);
}
Result hipStreamCreateWithFlags(void** stream, unsigned flags) {
  return fake::stream_create("hipStreamCreateWithFlags", stream, flags);
}
Result hipStreamDestroy(void* stream) { return fake::stream_destroy("hipStreamDestroy", stream); }
Result hipStreamSynchronize(void* stream) { return fake::stream_wait("hipStreamSynchronize", stream); }
Result hipStreamQuery(void* stream) { return fake::stream_query("hipStreamQuery", stream); }
Result hipStreamWaitEvent(void* stream, void* event, unsigned) {
  return fake::stream_wait_event("hipStreamWaitEvent", stream, event);
}
Result hipEventCreateWithFlags(void** event, unsigned flags) {
  return fake::event_create("hipEventCreateWithFlags", event, flags);
}
Result hipEventDestroy(void* event) { return fake::event_destroy("hipEventDestroy", event); }
Result hipEventRecord(void* event, void* stream) {
  return fake::event_record("hipEventRecord", event, stream);
}
#ifndef FAKE_HIP_5
Result hipMemPoolCreate(void** pool, const void*) { return fake::pool_create("hipMemPoolCreate", pool); }
Result hipMemPoolDestroy(void* pool) { return fake::pool_destroy("hipMemPoolDestroy", pool); }
Result hipMemPoolSetAttribute(void*, int which, void*) {
  return fake::called("hipMemPoolSetAttribute", fake::unknown, " %d", which);
}
Result hipMemPoolSetAccess(void*, const void*, size_t count) {
  return fake::called("hipMemPoolSetAccess", fake::unknown, " %zu", count);
}
Result hipMemPoolTrimTo(void*, size_t bytes) {
  return fake::called("hipMemPoolTrimTo", fake::unknown, " %zu", bytes);
}
Result hipMallocFromPoolAsync(void** data, size_t bytes, void*, void* stream) {
  return fake::alloc_on("hipMallocFromPoolAsync", data, bytes, stream);
}
Result hipFreeAsync(void* data, void* stream) { return fake::free_on("hipFreeAsync", data, stream); }
Result hipStreamBeginCapture(void* stream, int mode) {
  return fake::keep("hipStreamBeginCapture", stream, mode);
}
Result hipStreamEndCapture(void* stream, void** graph) {
  return fake::end_keeping("hipStreamEndCapture", stream, graph);
}
Result hipStreamGetCaptureInfo_v2(void* stream, int* state, unsigned long long*, void** graph,
                                  void* const** last, size_t* count) {
  return fake::kept(stream, state, graph, last, count);
}
Result hipGraphInstantiateWithFlags(void** instance, void* graph, unsigned long long) {
  return fake::instantiate("hipGraphInstantiate", instance, graph);
}
struct KernelNode {
  unsigned block_x, block_y, block_z;
  void** extra;
  void* function;
  unsigned grid_x, grid_y, grid_z;
  void** arguments;
  unsigned shared;
};
Result hipGraphExecKernelNodeSetParams(void* instance, void* node, const KernelNode* made) {
  return fake::set_launch("hipGraphExecKernelNodeSetParams", instance, node, made->function, made->grid_x,
                          made->block_x, made->shared, made->arguments);
}
Result hipGraphLaunch(void* instance, void* stream) {
  return fake::replay("hipGraphLaunch", instance, stream);
}
Result hipGraphExecDestroy(void* instance) {
  return fake::destroy<fake::Instance>("hipGraphExecDestroy", instance);
}
Result hipGraphDestroy(void* graph) { return fake::destroy<fake::Graph>("hipGraphDestroy", graph); }
#endif
Result hipModuleLoadDataEx(void** module, const void* image, unsigned, int*, void**) {
  const auto code = code_of(image);
  const auto kernel = kernel_of(code);
  if (kernel.empty()) return fake::invalid_image;
  return fake::load("hipModuleLoadDataEx", module, {code, kernel, 0}, ".so");
}
Result hipModuleUnload(void* module) { return fake::unload("hipModuleUnload", module); }
Result hipModuleGetFunction(void** function, void* module, const char* name) {
  return fake::function_of(function, module, name);
}
Result hipFuncSetAttribute(const void*, int attribute, int value) {
  return fake::called("hipFuncSetAttribute", fake::invalid_value, " %d %d", attribute, value);
}
Result hipModuleLaunchKernel(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                             unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                             void* stream, void** arguments, void**) {
  return fake::launch("hipModuleLaunchKernel", function, grid_x, grid_y, grid_z, block_x, block_y, block_z,
                      shared, stream, arguments);
}
Result hipFuncGetAttribute(int* value, int attribute, void*) {
  return fake::function_attribute(value, attribute);
}
}
