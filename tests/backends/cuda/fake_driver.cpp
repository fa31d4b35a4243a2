// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A stand-in for NVIDIA's driver that needs no device.
#include "../fake_driver.h"

using fake::Result;

namespace {

bool is_without_device() { return fake::number("FAKE_DRIVER_DEVICES", 1) == 0; }
void* pointer(uint64_t address) { return reinterpret_cast<void*>(address); }

}  // namespace

extern "C" {

/// Resets the state to that of a newly opened driver.
void fake_driver_reset() {
  const std::lock_guard lock(fake::mutex);
  fake::calls.clear();
  fake::lost = false;
}

Result cuInit(unsigned) {
  const auto failed = fake::called("cuInit", fake::unknown, "");
  return is_without_device() ? fake::no_device : failed;
}
Result cuDriverGetVersion(int* version) {
  *version = static_cast<int>(fake::number("FAKE_DRIVER_VERSION", 13000));
  return fake::success;
}
Result cuGetErrorName(Result error, const char** name) {
  *name = error == fake::out_of_memory     ? "CUDA_ERROR_OUT_OF_MEMORY"
          : error == fake::no_device       ? "CUDA_ERROR_NO_DEVICE"
          : error == fake::invalid_image   ? "CUDA_ERROR_INVALID_IMAGE"
          : error == fake::illegal_address ? "CUDA_ERROR_ILLEGAL_ADDRESS"
                                           : "CUDA_ERROR_UNKNOWN";
  return fake::success;
}
Result cuGetErrorString(Result error, const char** text) {
  *text = fake::text_of(error);
  return fake::success;
}
Result cuDeviceGetCount(int* count) {
  constexpr Result not_initialised = 3;
  return is_without_device() ? not_initialised : fake::device_count(count);
}
Result cuDeviceGet(int* device, int number) {
  *device = number;
  return fake::success;
}
Result cuDeviceGetName(char* name, int length, int) { return fake::device_name(name, length); }
Result cuDeviceGetAttribute(int* value, int attribute, int) {
  const int major = static_cast<int>(fake::number("FAKE_DRIVER_MAJOR", 9));
  const int minor = static_cast<int>(fake::number("FAKE_DRIVER_MINOR", 0));
  return fake::attribute(
      value, attribute,
      {{13, 1980000}, {16, 132}, {36, 2619000}, {37, 6144}, {38, 52428800}, {75, major}, {76, minor}});
}
Result cuDeviceTotalMem_v2(size_t* bytes, int) { return fake::device_memory(bytes); }
Result cuDevicePrimaryCtxRetain(void** context, int device) {
  *context = reinterpret_cast<void*>(static_cast<intptr_t>(device + 1));
  return fake::called("cuDevicePrimaryCtxRetain", fake::unknown, " %d", device);
}
Result cuCtxSetCurrent(void* context) { return context ? fake::success : fake::invalid_value; }
Result cuCtxEnablePeerAccess(void* peer, unsigned) {
  return fake::called("cuCtxEnablePeerAccess", fake::unknown, " %zd", reinterpret_cast<intptr_t>(peer) - 1);
}
Result cuDeviceCanAccessPeer(int* can, int, int) {
  *can = static_cast<int>(fake::number("FAKE_DRIVER_PEERS", 1));
  return fake::success;
}
Result cuMemAlloc_v2(uint64_t* data, size_t bytes) {
  void* taken = nullptr;
  const auto result = fake::alloc("cuMemAlloc", &taken, bytes);
  *data = reinterpret_cast<uint64_t>(taken);
  return result;
}
Result cuMemFree_v2(uint64_t data) { return fake::free("cuMemFree", pointer(data)); }
Result cuMemPoolCreate(void** pool, const void*) { return fake::pool_create("cuMemPoolCreate", pool); }
Result cuMemPoolDestroy(void* pool) { return fake::pool_destroy("cuMemPoolDestroy", pool); }
Result cuMemPoolSetAttribute(void*, int which, void*) {
  return fake::called("cuMemPoolSetAttribute", fake::unknown, " %d", which);
}
Result cuMemPoolSetAccess(void*, const void*, size_t count) {
  return fake::called("cuMemPoolSetAccess", fake::unknown, " %zu", count);
}
Result cuMemPoolTrimTo(void*, size_t bytes) {
  return fake::called("cuMemPoolTrimTo", fake::unknown, " %zu", bytes);
}
Result cuMemAllocFromPoolAsync(uint64_t* data, size_t bytes, void*, void* stream) {
  void* taken = nullptr;
  const auto result = fake::alloc_on("cuMemAllocFromPoolAsync", &taken, bytes, stream);
  *data = reinterpret_cast<uint64_t>(taken);
  return result;
}
Result cuMemFreeAsync(uint64_t data, void* stream) {
  return fake::free_on("cuMemFreeAsync", pointer(data), stream);
}
Result cuMemHostAlloc(void** data, size_t bytes, unsigned) {
  return fake::host_alloc("cuMemHostAlloc", data, bytes);
}
Result cuMemFreeHost(void* data) { return fake::host_free("cuMemFreeHost", data); }
Result cuMemcpyHtoDAsync_v2(uint64_t to, const void* from, size_t bytes, void* stream) {
  return fake::copy("cuMemcpyHtoDAsync", pointer(to), from, bytes, stream, from);
}
Result cuMemcpyDtoHAsync_v2(void* to, uint64_t from, size_t bytes, void* stream) {
  return fake::copy("cuMemcpyDtoHAsync", to, pointer(from), bytes, stream, to);
}
Result cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void* stream) {
  return fake::copy("cuMemcpyDtoDAsync", pointer(to), pointer(from), bytes, stream);
}
Result cuMemcpyPeerAsync(uint64_t to, void*, uint64_t from, void*, size_t bytes, void* stream) {
  return fake::copy("cuMemcpyPeerAsync", pointer(to), pointer(from), bytes, stream);
}
Result cuStreamCreate(void** stream, unsigned flags) {
  return fake::stream_create("cuStreamCreate", stream, flags);
}
Result cuStreamDestroy_v2(void* stream) { return fake::stream_destroy("cuStreamDestroy", stream); }
Result cuStreamSynchronize(void* stream) { return fake::stream_wait("cuStreamSynchronize", stream); }
Result cuStreamQuery(void* stream) { return fake::stream_query("cuStreamQuery", stream); }
Result cuStreamWaitEvent(void* stream, void* event, unsigned) {
  return fake::stream_wait_event("cuStreamWaitEvent", stream, event);
}
Result cuEventCreate(void** event, unsigned flags) {
  return fake::event_create("cuEventCreate", event, flags);
}
Result cuEventDestroy_v2(void* event) { return fake::event_destroy("cuEventDestroy", event); }
Result cuEventRecord(void* event, void* stream) { return fake::event_record("cuEventRecord", event, stream); }
Result cuStreamBeginCapture_v2(void* stream, int mode) {
  return fake::keep("cuStreamBeginCapture", stream, mode);
}
Result cuStreamEndCapture(void* stream, void** graph) {
  return fake::end_keeping("cuStreamEndCapture", stream, graph);
}
Result cuStreamGetCaptureInfo_v2(void* stream, int* state, uint64_t*, void** graph, void* const** last,
                                 size_t* count) {
  return fake::kept(stream, state, graph, last, count);
}
Result cuGraphInstantiateWithFlags(void** instance, void* graph, unsigned long long) {
  return fake::instantiate("cuGraphInstantiate", instance, graph);
}
struct KernelNode {
  void* function;
  unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, shared;
  void** arguments;
  void *extra, *kernel, *context;
};
Result cuGraphExecKernelNodeSetParams_v2(void* instance, void* node, const KernelNode* made) {
  return fake::set_launch("cuGraphExecKernelNodeSetParams", instance, node, made->function, made->grid_x,
                          made->block_x, made->shared, made->arguments);
}
Result cuGraphLaunch(void* instance, void* stream) { return fake::replay("cuGraphLaunch", instance, stream); }
Result cuGraphExecDestroy(void* instance) {
  return fake::destroy<fake::Instance>("cuGraphExecDestroy", instance);
}
Result cuGraphDestroy(void* graph) { return fake::destroy<fake::Graph>("cuGraphDestroy", graph); }
/// Returns its input.
Result cuLinkCreate_v2(unsigned, int*, void**, void** state) {
  *state = nullptr;
  if (const auto failed = fake::called("cuLinkCreate", fake::out_of_memory, "")) return failed;
  *state = new std::string;
  return fake::success;
}
Result cuLinkAddData_v2(void* state, int kind, void* data, size_t bytes, const char*, unsigned, int*,
                        void**) {
  constexpr int ptx = 1;
  const std::string text(static_cast<const char*>(data), bytes);
  if (kind != ptx || text.find('\0') != bytes - 1) return fake::invalid_value;
  *static_cast<std::string*>(state) = text;
  return fake::called("cuLinkAddData", fake::invalid_image, "");
}
Result cuLinkComplete(void* state, void** code, size_t* bytes) {
  auto& text = *static_cast<std::string*>(state);
  *code = text.data();
  *bytes = text.size();
  return fake::called("cuLinkComplete", fake::invalid_image, "");
}
Result cuLinkDestroy(void* state) {
  delete static_cast<std::string*>(state);
  return fake::called("cuLinkDestroy", fake::unknown, "");
}
Result cuModuleLoadDataEx(void** module, const void* image, unsigned, int*, void**) {
  const std::string text = static_cast<const char*>(image);
  const auto entry = text.find(".entry ");
  if (text.find(".version") == std::string::npos || entry == std::string::npos) return fake::invalid_image;
  const auto at = entry + std::strlen(".entry ");
  const auto opened = text.find('(', at), closed = text.find(')', opened);
  size_t arguments = 0;
  for (auto k = text.find(".param", opened); k < closed; k = text.find(".param", k + 1)) ++arguments;
  return fake::load("cuModuleLoadDataEx", module, {text, text.substr(at, opened - at), arguments}, ".ptx");
}
Result cuModuleUnload(void* module) { return fake::unload("cuModuleUnload", module); }
Result cuModuleGetFunction(void** function, void* module, const char* name) {
  return fake::function_of(function, module, name);
}
Result cuFuncSetAttribute(void*, int attribute, int value) {
  return fake::called("cuFuncSetAttribute", fake::invalid_value, " %d %d", attribute, value);
}
struct LaunchAttribute {
  int which, padding, number;
  char others[60];
};
struct LaunchConfiguration {
  unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, shared;
  void* stream;
  const LaunchAttribute* attributes;
  unsigned count;
};
/// Accepts the single attribute for kernels that wait for their predecessors.
Result cuLaunchKernelEx(const LaunchConfiguration* made, void* function, void** arguments, void**) {
  constexpr int overlaps = 6;
  const auto& code = static_cast<fake::Module*>(function)->code;
  if (made->count > 1 ||
      (made->count == 1 && (made->attributes->which != overlaps || made->attributes->number != 1 ||
                            code.find("griddepcontrol.wait;") == std::string::npos)))
    return fake::invalid_value;
  return fake::launch("cuLaunchKernelEx", function, made->grid_x, made->grid_y, made->grid_z, made->block_x,
                      made->block_y, made->block_z, made->shared, made->stream, arguments, made->count == 1);
}
Result cuFuncGetAttribute(int* value, int attribute, void*) {
  return fake::function_attribute(value, attribute);
}
}
