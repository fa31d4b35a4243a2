// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A driver without a device: memory is the host's, modules are kept as text, launches do nothing. Every call that matters is written
// as a line to the file that FAKE_DRIVER_LOG names. FAKE_DRIVER_FAIL=FUNCTION:N lets the N-th call of a function fail, FAKE_DRIVER_*
// set what the device says of itself. FAKE_DRIVER_MODULES names a folder that gets each module's text.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace {

using Result = int;
constexpr Result success = 0, invalid_value = 1, out_of_memory = 2, no_device = 100, invalid_image = 200;

std::mutex mutex;
std::map<std::string, int> calls;

long setting(const char* name, long fallback) {
  const char* text = std::getenv(name);
  return text ? std::strtol(text, nullptr, 10) : fallback;
}

/// Writes the line; gives the error that the call is to have.
template <class... Parts>
Result called(const char* function, Result failure, const char* format, Parts... parts) {
  const std::lock_guard lock(mutex);
  const int number = ++calls[function];
  if (const char* path = std::getenv("FAKE_DRIVER_LOG")) {
    if (FILE* file = std::fopen(path, "a")) {
      std::fprintf(file, "%s", function);
      std::fprintf(file, format, parts...);
      std::fprintf(file, "\n");
      std::fclose(file);
    }
  }
  const char* fails = std::getenv("FAKE_DRIVER_FAIL");
  return fails && std::string(fails) == std::string(function) + ":" + std::to_string(number) ? failure
                                                                                             : success;
}

struct Function {
  std::string name;
};
struct Module {
  std::string text;
  std::map<std::string, Function> functions;
};

}  // namespace

extern "C" {

Result cuInit(unsigned) { return called("cuInit", 999, ""); }
Result cuDriverGetVersion(int* version) {
  *version = static_cast<int>(setting("FAKE_DRIVER_VERSION", 13000));
  return success;
}
Result cuGetErrorName(Result error, const char** name) {
  *name = error == out_of_memory   ? "CUDA_ERROR_OUT_OF_MEMORY"
          : error == no_device     ? "CUDA_ERROR_NO_DEVICE"
          : error == invalid_image ? "CUDA_ERROR_INVALID_IMAGE"
          : error == 700           ? "CUDA_ERROR_ILLEGAL_ADDRESS"
                                   : "CUDA_ERROR_UNKNOWN";
  return success;
}
Result cuGetErrorString(Result error, const char** text) {
  *text = error == out_of_memory ? "out of memory" : error == 700 ? "an illegal memory access" : "a failure";
  return success;
}
Result cuDeviceGetCount(int* count) {
  *count = static_cast<int>(setting("FAKE_DRIVER_DEVICES", 1));
  return *count == 0 ? no_device : success;
}
Result cuDeviceGet(int* device, int number) {
  *device = number;
  return success;
}
Result cuDeviceGetName(char* name, int length, int) {
  std::snprintf(name, static_cast<size_t>(length), "A Fake Device");
  return success;
}
Result cuDeviceGetAttribute(int* value, int attribute, int) {
  const std::map<int, long> values = {{13, 1980000}, {16, 132},      {36, 2619000},
                                      {37, 6144},    {38, 52428800}, {75, setting("FAKE_DRIVER_MAJOR", 9)},
                                      {76, 0},       {97, 232448}};
  const auto found = values.find(attribute);
  if (found == values.end()) return invalid_value;
  *value = static_cast<int>(found->second);
  return success;
}
Result cuDeviceTotalMem_v2(size_t* bytes, int) {
  *bytes = static_cast<size_t>(setting("FAKE_DRIVER_MEMORY", 1L << 30));
  return success;
}
Result cuDevicePrimaryCtxRetain(void** context, int device) {
  *context = reinterpret_cast<void*>(static_cast<intptr_t>(device + 1));
  return called("cuDevicePrimaryCtxRetain", 999, " %d", device);
}
Result cuCtxSetCurrent(void* context) { return context ? success : invalid_value; }
Result cuMemAlloc_v2(uint64_t* data, size_t bytes) {
  if (const auto failed = called("cuMemAlloc", out_of_memory, " %zu", bytes)) return failed;
  *data = reinterpret_cast<uint64_t>(std::aligned_alloc(256, (bytes + 255) / 256 * 256));
  return *data ? success : out_of_memory;
}
Result cuMemFree_v2(uint64_t data) {
  std::free(reinterpret_cast<void*>(data));
  return called("cuMemFree", 700, "");
}
Result cuMemcpyHtoDAsync_v2(uint64_t to, const void* from, size_t bytes, void*) {
  std::memcpy(reinterpret_cast<void*>(to), from, bytes);
  return called("cuMemcpyHtoDAsync", 700, " %zu", bytes);
}
Result cuMemcpyDtoHAsync_v2(void* to, uint64_t from, size_t bytes, void*) {
  std::memcpy(to, reinterpret_cast<const void*>(from), bytes);
  return called("cuMemcpyDtoHAsync", 700, " %zu", bytes);
}
Result cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void*) {
  std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
  return called("cuMemcpyDtoDAsync", 700, " %zu", bytes);
}
Result cuStreamCreate(void** stream, unsigned flags) {
  *stream = reinterpret_cast<void*>(intptr_t{1});
  return called("cuStreamCreate", 999, " %u", flags);
}
Result cuStreamSynchronize(void*) { return called("cuStreamSynchronize", 700, ""); }
Result cuModuleLoadDataEx(void** module, const void* image, unsigned, int*, void**) {
  auto made = std::make_unique<Module>(Module{static_cast<const char*>(image), {}});
  if (made->text.find(".version") == std::string::npos) return invalid_image;
  if (const char* folder = std::getenv("FAKE_DRIVER_MODULES")) {
    const auto at = made->text.find(".entry ") + 7;
    const auto path =
        std::string(folder) + "/" + made->text.substr(at, made->text.find('(', at) - at) + ".ptx";
    if (FILE* file = std::fopen(path.c_str(), "w")) {
      std::fputs(made->text.c_str(), file);
      std::fclose(file);
    }
  }
  if (const auto failed = called("cuModuleLoadDataEx", invalid_image, "")) return failed;
  *module = made.release();
  return success;
}
Result cuModuleUnload(void* module) {
  delete static_cast<Module*>(module);
  return called("cuModuleUnload", 999, "");
}
Result cuModuleGetFunction(void** function, void* module, const char* name) {
  auto& owner = *static_cast<Module*>(module);
  if (owner.text.find(std::string(".entry ") + name + "(") == std::string::npos) return 500;
  *function = &owner.functions.try_emplace(name, Function{name}).first->second;
  return success;
}
Result cuFuncSetAttribute(void*, int attribute, int value) {
  return called("cuFuncSetAttribute", invalid_value, " %d %d", attribute, value);
}
Result cuLaunchKernel(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                      unsigned block_y, unsigned block_z, unsigned shared, void*, void** arguments, void**) {
  if (!arguments || grid_x == 0 || grid_y != 1 || grid_z != 1 || block_y != 1 || block_z != 1)
    return invalid_value;
  return called("cuLaunchKernel", 700, " %s grid %u block %u shared %u",
                static_cast<Function*>(function)->name.c_str(), grid_x, block_x, shared);
}
}
