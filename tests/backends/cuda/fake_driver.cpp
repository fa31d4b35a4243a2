// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// NVIDIA's driver without a device.
#include "../fake_driver.h"

using fake::Result;

namespace {

void* pointer(uint64_t address) { return reinterpret_cast<void*>(address); }

}  // namespace

extern "C" {

Result cuInit(unsigned) { return fake::called("cuInit", fake::unknown, ""); }
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
Result cuDeviceGetCount(int* count) { return fake::device_count(count); }
Result cuDeviceGet(int* device, int number) {
  *device = number;
  return fake::success;
}
Result cuDeviceGetName(char* name, int length, int) { return fake::device_name(name, length); }
Result cuDeviceGetAttribute(int* value, int attribute, int) {
  const int major = static_cast<int>(fake::number("FAKE_DRIVER_MAJOR", 9));
  return fake::attribute(
      value, attribute,
      {{13, 1980000}, {16, 132}, {36, 2619000}, {37, 6144}, {38, 52428800}, {75, major}, {76, 0}});
}
Result cuDeviceTotalMem_v2(size_t* bytes, int) { return fake::device_memory(bytes); }
Result cuDevicePrimaryCtxRetain(void** context, int device) {
  *context = reinterpret_cast<void*>(static_cast<intptr_t>(device + 1));
  return fake::called("cuDevicePrimaryCtxRetain", fake::unknown, " %d", device);
}
Result cuCtxSetCurrent(void* context) { return context ? fake::success : fake::invalid_value; }
Result cuMemAlloc_v2(uint64_t* data, size_t bytes) {
  void* taken = nullptr;
  const auto result = fake::alloc("cuMemAlloc", &taken, bytes);
  *data = reinterpret_cast<uint64_t>(taken);
  return result;
}
Result cuMemFree_v2(uint64_t data) { return fake::free("cuMemFree", pointer(data)); }
Result cuMemcpyHtoDAsync_v2(uint64_t to, const void* from, size_t bytes, void*) {
  return fake::copy("cuMemcpyHtoDAsync", pointer(to), from, bytes);
}
Result cuMemcpyDtoHAsync_v2(void* to, uint64_t from, size_t bytes, void*) {
  return fake::copy("cuMemcpyDtoHAsync", to, pointer(from), bytes);
}
Result cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void*) {
  return fake::copy("cuMemcpyDtoDAsync", pointer(to), pointer(from), bytes);
}
Result cuStreamCreate(void** stream, unsigned flags) {
  return fake::stream_create("cuStreamCreate", stream, flags);
}
Result cuStreamSynchronize(void*) { return fake::called("cuStreamSynchronize", fake::illegal_address, ""); }
Result cuModuleLoadDataEx(void** module, const void* image, unsigned, int*, void**) {
  const std::string text = static_cast<const char*>(image);
  const auto entry = text.find(".entry ");
  if (text.find(".version") == std::string::npos || entry == std::string::npos) return fake::invalid_image;
  const auto at = entry + std::strlen(".entry ");
  return fake::load("cuModuleLoadDataEx", module, {text, text.substr(at, text.find('(', at) - at)}, ".ptx");
}
Result cuModuleUnload(void* module) { return fake::unload("cuModuleUnload", module); }
Result cuModuleGetFunction(void** function, void* module, const char* name) {
  return fake::function_of(function, module, name);
}
Result cuFuncSetAttribute(void*, int attribute, int value) {
  return fake::called("cuFuncSetAttribute", fake::invalid_value, " %d %d", attribute, value);
}
Result cuLaunchKernel(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                      unsigned block_y, unsigned block_z, unsigned shared, void*, void** arguments, void**) {
  return fake::launch("cuLaunchKernel", function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared,
                      arguments);
}
}
