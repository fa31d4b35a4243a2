// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A Level Zero driver that computes on the CPU: memory is PoCL's shared virtual memory, a SPIR-V module goes through spirv-val,
// and llvm-spirv-15 to a PoCL program. The loader takes it from ZE_ENABLE_ALT_DRIVERS=libpocl_driver.so. Work is done when it is appended to an immediate
// list, and when a queue executes the list otherwise. Arguments are checked more strictly than a device's driver does, so that what
// is undefined there fails here.
//
//   POCL_DRIVER_LOG=FILE         gets a line for each call: the function, its important numbers, its error if it failed
//   POCL_DRIVER_FAIL=FUNCTION:N  the N-th call of the function fails; several are separated by commas. The loader calls zeInit twice
//   POCL_DRIVER_ERROR=NUMBER     the error of such calls, instead of the device being lost; what was put off is done all the same
//   POCL_DRIVER_LOSE=FUNCTION:N  the device is lost in that call: it and all later ones fail, but those that end something; as
//                                long as the variable is set
//   POCL_DRIVER_DEVICES=0|1      the number of devices
//   POCL_DRIVER_MEMORY=BYTES     the device's memory; allocations beyond it fail
//   POCL_DRIVER_LATE=1           immediate lists work only when the host waits for what is not signaled yet: whoever forgets to wait, or
//                                waits for what an earlier wait left signaled, sees it
//   POCL_DRIVER_FLAGS=NUMBER     what modules may have, ze_device_module_flags_t, instead of all
//   POCL_DRIVER_TRANSLATOR=PATH  instead of llvm-spirv-15
//
// Needs libze-dev and ocl-icd-opencl-dev; at run time libze1, pocl-opencl-icd, spirv-tools and
// llvm-spirv-15.
#define CL_TARGET_OPENCL_VERSION 200
#include <CL/cl.h>
#include <level_zero/ze_api.h>
#include <level_zero/ze_ddi.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "spirv_reader.h"

namespace {

using Bytes = std::vector<std::byte>;
using pocl_driver::Argument;
using pocl_driver::EntryPoint;
using pocl_driver::Size3;
using pocl_driver::SpirV;
using pocl_driver::Words;
using Work = std::function<void()>;
namespace fs = std::filesystem;

constexpr uint32_t max_group_size = 1024, max_local_memory = 64 << 10;

// ---- errors: thrown inside, returned by the API's functions ----

struct Refusal {
  ze_result_t result;
};
void refuse_if(bool wrong, ze_result_t result) {
  if (wrong) throw Refusal{result};
}
template <class... Pointers>
void need(const Pointers*... pointers) {
  refuse_if((... || (pointers == nullptr)), ZE_RESULT_ERROR_INVALID_NULL_POINTER);
}
void check_cl(cl_int error) {
  static const std::map<cl_int, ze_result_t> results = {
      {CL_OUT_OF_HOST_MEMORY, ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY},
      {CL_OUT_OF_RESOURCES, ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY},
      {CL_MEM_OBJECT_ALLOCATION_FAILURE, ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY},
      {CL_INVALID_WORK_GROUP_SIZE, ZE_RESULT_ERROR_INVALID_GROUP_SIZE_DIMENSION},
      {CL_INVALID_WORK_ITEM_SIZE, ZE_RESULT_ERROR_INVALID_GROUP_SIZE_DIMENSION},
      {CL_INVALID_ARG_SIZE, ZE_RESULT_ERROR_INVALID_KERNEL_ARGUMENT_SIZE},
      {CL_INVALID_ARG_VALUE, ZE_RESULT_ERROR_INVALID_ARGUMENT}};
  const auto found = results.find(error);
  refuse_if(error != CL_SUCCESS, found == results.end() ? ZE_RESULT_ERROR_UNKNOWN : found->second);
}

// ---- what handles name ----

struct Object {
  Object() = default;
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  virtual ~Object() = default;
};
struct Context : Object {};
struct Queue : Object {};
struct EventPool : Object {
  uint32_t count = 0;
};
struct Event : Object {
  bool signaled = false;
};
struct BuildLog : Object {
  std::string text;
};
struct Module : Object {
  ~Module() override {
    if (program) clReleaseProgram(program);
  }
  cl_program program = nullptr;
  SpirV spirv;
};
/// An argument as it was set; a local one has a size and no data.
struct Setting {
  bool set = false;
  size_t bytes = 0;
  Bytes data;
};
struct Kernel : Object {
  ~Kernel() override {
    if (kernel) clReleaseKernel(kernel);
  }
  std::string name;
  cl_kernel kernel = nullptr;  // keeps its program
  EntryPoint entry;
  std::vector<Setting> settings;
  Size3 group_size = {1, 1, 1};
};
struct List : Object {
  bool immediate = false, closed = false;
  std::vector<Work> work;
};
struct Allocation {
  void* base;  // what PoCL gave: below the data where the alignment asks for it
  size_t bytes;
  const char* kind;
};

struct State {
  std::mutex mutex;
  std::map<std::string, int> calls;
  std::map<const void*, std::shared_ptr<Object>> objects;
  std::map<uintptr_t, Allocation> allocations;
  std::deque<Work> late;
  bool lost = false;
  size_t device_bytes = 0;
  cl_device_id device = nullptr;
  cl_context context = nullptr;
  cl_command_queue queue = nullptr;
  int driver_handle = 0, device_handle = 0;  // their addresses are the handles
};

/// Never destroyed: PoCL's threads and the program's own destructors may still be at work when the process ends.
State& state() {
  static auto* made = new State;
  return *made;
}

uint64_t setting(const char* name, uint64_t fallback) {
  const char* text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 0) : fallback;
}

// ---- calls ----

/// What the log is to say of a call.
using Line = std::string;
__attribute__((format(printf, 2, 3))) void add(Line& line, const char* format, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  line += std::string(" ") + text;
}

/// Whether the variable's list has the call.
bool names(const char* variable, const std::string& function, int number) {
  const char* list = std::getenv(variable);
  return list && ("," + std::string(list) + ",").find("," + function + ":" + std::to_string(number) + ",") !=
                     std::string::npos;
}

/// Does what immediate lists put off. After an error the rest is dropped, as by a lost device.
void settle() {
  auto late = std::exchange(state().late, {});
  for (const Work& work : late) work();
}

/// Lets the call fail that is to.
void fail_as_told(const std::string& function) {
  const int number = ++state().calls[function];
  state().lost =
      std::getenv("POCL_DRIVER_LOSE") && (state().lost || names("POCL_DRIVER_LOSE", function, number));
  if (state().lost) state().late.clear();
  const bool ends = function.ends_with("Destroy") || function == "zeMemFree";
  refuse_if(state().lost && !ends, ZE_RESULT_ERROR_DEVICE_LOST);
  if (!names("POCL_DRIVER_FAIL", function, number)) return;
  const auto error = setting("POCL_DRIVER_ERROR", 0);
  if (error != 0) settle();
  refuse_if(error != 0, static_cast<ze_result_t>(error));
  refuse_if(function.starts_with("zeMemAlloc"), ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY);
  throw Refusal{ZE_RESULT_ERROR_DEVICE_LOST};
}

/// Does the body of a call, one at a time, unless the call is to fail; writes the call's line.
template <class Body>
ze_result_t call(const std::string& function, Body body) {
  const std::lock_guard lock(state().mutex);
  Line line = function;
  ze_result_t result = ZE_RESULT_SUCCESS;
  try {
    fail_as_told(function);
    body(line);
  } catch (const Refusal& refusal) {
    result = refusal.result;
    add(line, "failed %#x", static_cast<unsigned>(result));
  } catch (const std::exception& exception) {
    result = ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY;
    add(line, "failed: %s", exception.what());
  }
  if (const char* path = std::getenv("POCL_DRIVER_LOG")) {
    if (FILE* file = std::fopen(path, "a")) {
      std::fprintf(file, "%s\n", line.c_str());
      std::fclose(file);
    }
  }
  return result;
}

/// A function's name as a template's argument.
template <size_t size>
struct Name {
  consteval Name(const char (&from)[size]) { std::copy_n(from, size, text); }  // NOLINT: from a literal
  char text[size];
};

/// Lets the body, which takes the line for the log before the function's own arguments, be what the table's entry calls.
template <Name function, class Body, class... Arguments>
void implement(ze_result_t(ZE_APICALL*& entry)(Arguments...), Body) {
  entry = [](Arguments... arguments) {
    return call(function.text, [&](Line& line) { Body{}(line, arguments...); });
  };
}

/// The living object of this kind behind the handle.
template <class T>
std::shared_ptr<T> find(const void* handle) {
  refuse_if(!handle, ZE_RESULT_ERROR_INVALID_NULL_HANDLE);
  const auto found = state().objects.find(handle);
  refuse_if(found == state().objects.end(), ZE_RESULT_ERROR_INVALID_ARGUMENT);
  auto object = std::dynamic_pointer_cast<T>(found->second);
  refuse_if(!object, ZE_RESULT_ERROR_INVALID_ARGUMENT);
  return object;
}
void check_only(const void* handle, const int& only) {
  refuse_if(!handle, ZE_RESULT_ERROR_INVALID_NULL_HANDLE);
  refuse_if(handle != &only, ZE_RESULT_ERROR_INVALID_ARGUMENT);
}
void check_driver(const void* handle) { check_only(handle, state().driver_handle); }
void check_device(const void* handle) { check_only(handle, state().device_handle); }

template <class Handle, class T>
void hand_out(Handle* handle, std::shared_ptr<T> object) {
  *handle = reinterpret_cast<Handle>(object.get());
  state().objects[object.get()] = std::move(object);
}
template <class T>
void destroy(const void* handle) {
  find<T>(handle);
  state().objects.erase(handle);
}

/// Level Zero's way to give a list: its length where none is asked for, else as much of it as there is room for.
template <class T>
void give(uint32_t* count, T* out, uint32_t available, const T& only) {
  need(count);
  const bool asks = *count == 0;
  if (!asks) need(out);
  *count = asks ? available : std::min(*count, available);
  if (!asks && *count > 0) *out = only;
}

/// Empties a properties structure but for what its caller wrote.
template <class T>
void clear(T* properties) {
  need(properties);
  const auto kind = properties->stype;
  auto* const next = properties->pNext;
  *properties = {};
  properties->stype = kind;
  properties->pNext = next;
}

// ---- PoCL ----

void open_pocl() {
  State& driver = state();
  cl_uint count = 0;
  std::array<cl_platform_id, 16> platforms{};
  if (!driver.queue) clGetPlatformIDs(platforms.size(), platforms.data(), &count);
  for (cl_uint i = 0; i < count && i < platforms.size() && !driver.queue; ++i) {
    char name[256] = "";
    clGetPlatformInfo(platforms[i], CL_PLATFORM_NAME, sizeof name, name, nullptr);
    if (std::string_view(name) != "Portable Computing Language") continue;
    if (clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_CPU, 1, &driver.device, nullptr)) continue;
    driver.context = clCreateContext(nullptr, 1, &driver.device, nullptr, nullptr, nullptr);
    if (driver.context)
      driver.queue = clCreateCommandQueueWithProperties(driver.context, driver.device, nullptr, nullptr);
  }
  refuse_if(!driver.queue, ZE_RESULT_ERROR_UNINITIALIZED);
}

constexpr const char* device_kind = "device";
constexpr const char* host_kind = "host";
constexpr const char* shared_kind = "shared";
constexpr const char* no_kind = "unknown";

uint64_t device_memory() { return setting("POCL_DRIVER_MEMORY", uint64_t{1} << 30); }

/// The allocation that the address lies in, with its start; null for other memory.
const std::pair<const uintptr_t, Allocation>* allocation(const void* data) {
  const auto address = reinterpret_cast<uintptr_t>(data);
  const auto after = state().allocations.upper_bound(address);
  if (after == state().allocations.begin()) return nullptr;
  const auto before = std::prev(after);
  return address - before->first < before->second.bytes ? &*before : nullptr;
}
const char* kind(const void* data) {
  const auto* found = allocation(data);
  return found ? found->second.kind : no_kind;
}
/// What begins in an allocation must end there; what does not is the host's own.
void check_range(const void* data, size_t bytes) {
  need(data);
  const auto* found = allocation(data);
  refuse_if(found && bytes > found->second.bytes - (reinterpret_cast<uintptr_t>(data) - found->first),
            ZE_RESULT_ERROR_INVALID_SIZE);
}

void* allocate(Line& line, const char* memory, const void* context, size_t bytes, size_t alignment) {
  add(line, "%zu", bytes);
  find<Context>(context);
  refuse_if(bytes == 0, ZE_RESULT_ERROR_UNSUPPORTED_SIZE);
  refuse_if(alignment != 0 && !std::has_single_bit(alignment), ZE_RESULT_ERROR_UNSUPPORTED_ALIGNMENT);
  const size_t counted = memory == host_kind ? 0 : bytes;
  refuse_if(counted > device_memory() - std::min(state().device_bytes, device_memory()),
            ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY);
  // PoCL aligns to 128 bytes at most.
  const size_t aligned = std::max<size_t>(alignment, 64), extra = aligned > 128 ? aligned : 0;
  void* base =
      clSVMAlloc(state().context, CL_MEM_READ_WRITE | CL_MEM_SVM_FINE_GRAIN_BUFFER, bytes + extra, 128);
  refuse_if(!base, counted ? ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY : ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY);
  const auto start = (reinterpret_cast<uintptr_t>(base) + aligned - 1) / aligned * aligned;
  state().allocations[start] = {base, bytes, memory};
  state().device_bytes += counted;
  // Fresh memory that happens to be zero would hide a missing fill.
  return std::memset(reinterpret_cast<void*>(start), 0xcb, bytes);
}

std::string file_text(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The module as bitcode, which Debian's PoCL 3.1 takes instead of SPIR-V; "" if spirv-val or llvm-spirv-15 does not take it. The latter
/// ends by a failed assertion for some modules, so it is a process of its own.
std::string to_bitcode(const Words& words, std::string& log) {
  auto folder = (fs::temp_directory_path() / "pocl_driver_XXXXXX").string();
  if (!mkdtemp(folder.data())) return "";
  const auto from = folder + "/module.spv", to = folder + "/module.bc", said = folder + "/log";
  std::ofstream(from, std::ios::binary)
      .write(reinterpret_cast<const char*>(words.data()), static_cast<std::streamsize>(words.size() * 4));
  const auto takes = [&](const char* tool, const std::string& command) {
    if (std::system((command + " > '" + said + "' 2>&1").c_str()) == 0) return true;
    log = std::string(tool) + " does not take the module: " + file_text(said);
    return false;
  };
  const char* translator = std::getenv("POCL_DRIVER_TRANSLATOR");
  const bool good = takes("spirv-val", "spirv-val --target-env spv1.2 '" + from + "'") &&
                    takes("llvm-spirv-15", std::string(translator ? translator : "llvm-spirv-15") + " -r '" +
                                               from + "' -o '" + to + "'");
  auto bitcode = good ? file_text(to) : "";
  if (good && bitcode.empty()) log = "llvm-spirv-15 makes nothing of the module";
  std::error_code ignored;
  fs::remove_all(folder, ignored);
  return bitcode;
}

/// Errors: ZE_RESULT_ERROR_MODULE_BUILD_FAILURE, with the reason in the log.
void build(Module& module, std::span<const uint32_t> words, std::string& log) {
  log = "the words are not those of a SPIR-V module";
  auto read = pocl_driver::read_spirv(words);
  refuse_if(!read, ZE_RESULT_ERROR_MODULE_BUILD_FAILURE);
  module.spirv = std::move(*read);
  log.clear();
  const auto bitcode = to_bitcode(module.spirv.words, log);
  refuse_if(bitcode.empty(), ZE_RESULT_ERROR_MODULE_BUILD_FAILURE);
  State& driver = state();
  const size_t bytes = bitcode.size();
  const auto* data = reinterpret_cast<const unsigned char*>(bitcode.data());
  cl_int error = 0;
  module.program =
      clCreateProgramWithBinary(driver.context, 1, &driver.device, &bytes, &data, nullptr, &error);
  if (module.program)
    error = clBuildProgram(module.program, 1, &driver.device, "-x spir -spir-std=1.2", nullptr, nullptr);
  if (error == CL_SUCCESS) return;
  std::array<char, 1 << 14> text{};
  if (module.program)
    clGetProgramBuildInfo(module.program, driver.device, CL_PROGRAM_BUILD_LOG, text.size(), text.data(),
                          nullptr);
  log = "PoCL does not build the module, error " + std::to_string(error) + ": " + text.data();
  throw Refusal{ZE_RESULT_ERROR_MODULE_BUILD_FAILURE};
}

/// Null, or in memory that was allocated and not freed since.
void check_pointer(const void* argument) {
  const void* pointer = nullptr;
  std::memcpy(&pointer, argument, sizeof pointer);
  refuse_if(pointer && !allocation(pointer), ZE_RESULT_ERROR_INVALID_ARGUMENT);
}

void launch(const Kernel& kernel, const std::vector<Setting>& settings, const Size3& group_size,
            const ze_group_count_t& groups) {
  for (cl_uint i = 0; i < settings.size(); ++i) {
    const auto& [set, bytes, data] = settings[i];
    refuse_if(!set, ZE_RESULT_ERROR_INVALID_ARGUMENT);
    if (kernel.entry.arguments[i].kind == Argument::Pointer) {
      check_pointer(data.data());
      void* pointer = nullptr;
      std::memcpy(&pointer, data.data(), sizeof pointer);
      check_cl(clSetKernelArgSVMPointer(kernel.kernel, i, pointer));
    } else {
      check_cl(clSetKernelArg(kernel.kernel, i, bytes, data.empty() ? nullptr : data.data()));
    }
  }
  const std::array<size_t, 3> local = {group_size[0], group_size[1], group_size[2]};
  const std::array<size_t, 3> global = {local[0] * groups.groupCountX, local[1] * groups.groupCountY,
                                        local[2] * groups.groupCountZ};
  if (std::ranges::count(global, 0u) != 0) return;
  check_cl(clEnqueueNDRangeKernel(state().queue, kernel.kernel, 3, nullptr, global.data(), local.data(), 0,
                                  nullptr, nullptr));
  check_cl(clFinish(state().queue));
}

// ---- lists ----

struct Events {
  ze_event_handle_t signal;
  uint32_t wait_count;
  ze_event_handle_t* wait;
};
void append(ze_command_list_handle_t handle, const Events& events, Work work) {
  const auto list = find<List>(handle);
  refuse_if(list->closed, ZE_RESULT_ERROR_INVALID_ARGUMENT);
  if (events.wait_count > 0) need(events.wait);
  std::vector<std::shared_ptr<Event>> waits;
  for (uint32_t i = 0; i < events.wait_count; ++i) waits.push_back(find<Event>(events.wait[i]));
  const auto signal = events.signal ? find<Event>(events.signal) : nullptr;
  Work whole = [waits = std::move(waits), signal, work = std::move(work)] {
    // Work is done in its order, so an event that is not signaled now would never be.
    for (const auto& event : waits)
      refuse_if(!event->signaled, ZE_RESULT_ERROR_INVALID_SYNCHRONIZATION_OBJECT);
    work();
    if (signal) signal->signaled = true;
  };
  if (!list->immediate)
    list->work.push_back(std::move(whole));
  else if (setting("POCL_DRIVER_LATE", 0) != 0)
    state().late.push_back(std::move(whole));
  else
    whole();
}

void make_list(bool immediate, ze_context_handle_t context, ze_device_handle_t device,
               const void* description, ze_command_list_handle_t* list) {
  find<Context>(context);
  check_device(device);
  need(description, list);
  auto made = std::make_shared<List>();
  made->immediate = immediate;
  hand_out(list, std::move(made));
}

/// Without waiting: an event that no work has signaled by now is not going to be.
void wait_for(ze_event_handle_t event) {
  const auto found = find<Event>(event);
  if (!found->signaled) settle();
  refuse_if(!found->signaled, ZE_RESULT_NOT_READY);
}

}  // namespace

// ---- the API, as the tables that the loader asks for ----
// What a table lacks is null and fails with ZE_RESULT_ERROR_UNSUPPORTED_FEATURE.

#define FE_TABLE(function, type)                                                           \
  static void fill_table(type& table);                                                     \
  extern "C" ZE_DLLEXPORT ze_result_t ZE_APICALL function(ze_api_version_t, type* table) { \
    if (!table) return ZE_RESULT_ERROR_INVALID_NULL_POINTER;                               \
    *table = {};                                                                           \
    fill_table(*table);                                                                    \
    return ZE_RESULT_SUCCESS;                                                              \
  }                                                                                        \
  static void fill_table(type& table)

FE_TABLE(zeGetGlobalProcAddrTable, ze_global_dditable_t) {
  implement<"zeInit">(table.pfnInit, [](Line&, auto flags) {
    refuse_if(flags > 3, ZE_RESULT_ERROR_INVALID_ENUMERATION);
    open_pocl();
  });
}

FE_TABLE(zeGetDriverProcAddrTable, ze_driver_dditable_t) {
  implement<"zeDriverGet">(table.pfnGet, [](Line&, auto* count, auto* drivers) {
    const auto only = reinterpret_cast<ze_driver_handle_t>(&state().driver_handle);
    give(count, drivers, 1, only);
  });
  implement<"zeDriverGetApiVersion">(table.pfnGetApiVersion, [](Line&, auto driver, auto* version) {
    check_driver(driver);
    need(version);
    *version = ZE_API_VERSION_CURRENT;
  });
  implement<"zeDriverGetProperties">(table.pfnGetProperties, [](Line&, auto driver, auto* properties) {
    check_driver(driver);
    clear(properties);
    properties->driverVersion = 1;
  });
}

FE_TABLE(zeGetDeviceProcAddrTable, ze_device_dditable_t) {
  implement<"zeDeviceGet">(table.pfnGet, [](Line&, auto driver, auto* count, auto* devices) {
    check_driver(driver);
    const auto only = reinterpret_cast<ze_device_handle_t>(&state().device_handle);
    give(count, devices, setting("POCL_DRIVER_DEVICES", 1) != 0 ? 1 : 0, only);
  });
  implement<"zeDeviceGetProperties">(table.pfnGetProperties, [](Line&, auto device, auto* properties) {
    check_device(device);
    clear(properties);
    properties->type = ZE_DEVICE_TYPE_GPU;  // what programs look for
    properties->vendorId = 0x8086;
    properties->coreClockRate = 1000;
    properties->maxMemAllocSize = device_memory();
    properties->maxHardwareContexts = 1;
    properties->numThreadsPerEU = properties->numSubslicesPerSlice = properties->numSlices = 1;
    properties->physicalEUSimdWidth = 8;
    clGetDeviceInfo(state().device, CL_DEVICE_MAX_COMPUTE_UNITS, sizeof(cl_uint),
                    &properties->numEUsPerSubslice, nullptr);
    properties->timerResolution = 1;
    properties->timestampValidBits = properties->kernelTimestampValidBits = 64;
    std::snprintf(properties->name, sizeof properties->name, "PoCL as a Level Zero Device");
  });
  implement<"zeDeviceGetComputeProperties">(
      table.pfnGetComputeProperties, [](Line&, auto device, auto* properties) {
        check_device(device);
        clear(properties);
        properties->maxTotalGroupSize = max_group_size;
        properties->maxGroupSizeX = properties->maxGroupSizeY = properties->maxGroupSizeZ = max_group_size;
        properties->maxGroupCountX = properties->maxGroupCountY = properties->maxGroupCountZ = UINT32_MAX;
        properties->maxSharedLocalMemory = max_local_memory;
        properties->numSubGroupSizes = 1;  // PoCL 3.1 has no functions of sub-groups
        properties->subGroupSizes[0] = 1;
      });
  implement<"zeDeviceGetModuleProperties">(
      table.pfnGetModuleProperties, [](Line&, auto device, auto* properties) {
        check_device(device);
        clear(properties);
        properties->spirvVersionSupported = ZE_MAKE_VERSION(1, 2);
        properties->flags = static_cast<ze_device_module_flags_t>(setting(
            "POCL_DRIVER_FLAGS",
            ZE_DEVICE_MODULE_FLAG_FP16 | ZE_DEVICE_MODULE_FLAG_FP64 | ZE_DEVICE_MODULE_FLAG_INT64_ATOMICS));
        properties->fp16flags = properties->fp32flags = properties->fp64flags =
            ZE_DEVICE_FP_FLAG_DENORM | ZE_DEVICE_FP_FLAG_INF_NAN | ZE_DEVICE_FP_FLAG_ROUND_TO_NEAREST |
            ZE_DEVICE_FP_FLAG_FMA;
        properties->maxArgumentsSize = 1024;
      });
  implement<"zeDeviceGetCommandQueueGroupProperties">(
      table.pfnGetCommandQueueGroupProperties, [](Line&, auto device, auto* count, auto* properties) {
        check_device(device);
        ze_command_queue_group_properties_t only =
            properties ? *properties : ze_command_queue_group_properties_t{};
        clear(&only);
        only.flags = ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_COMPUTE | ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_COPY;
        only.maxMemoryFillPatternSize = 128;
        only.numQueues = 1;
        give(count, properties, 1, only);
      });
  implement<"zeDeviceGetMemoryProperties">(
      table.pfnGetMemoryProperties, [](Line&, auto device, auto* count, auto* properties) {
        check_device(device);
        ze_device_memory_properties_t only = properties ? *properties : ze_device_memory_properties_t{};
        clear(&only);
        only.totalSize = device_memory();
        only.maxClockRate = 1000;
        only.maxBusWidth = 64;
        give(count, properties, 1, only);
      });
  implement<"zeDeviceGetStatus">(table.pfnGetStatus, [](Line&, auto device) { check_device(device); });
}

FE_TABLE(zeGetContextProcAddrTable, ze_context_dditable_t) {
  implement<"zeContextCreate">(table.pfnCreate, [](Line&, auto driver, auto* description, auto* context) {
    check_driver(driver);
    need(description, context);
    hand_out(context, std::make_shared<Context>());
  });
  implement<"zeContextDestroy">(table.pfnDestroy, [](Line&, auto context) { destroy<Context>(context); });
  implement<"zeContextGetStatus">(table.pfnGetStatus, [](Line&, auto context) { find<Context>(context); });
}

FE_TABLE(zeGetMemProcAddrTable, ze_mem_dditable_t) {
  implement<"zeMemAllocShared">(table.pfnAllocShared,
                                [](Line& line, auto context, auto* description, auto* host, auto bytes,
                                   auto alignment, auto device, auto* data) {
                                  need(description, host, data);
                                  if (device) check_device(device);  // memory of no device is shared by all
                                  *data = allocate(line, shared_kind, context, bytes, alignment);
                                });
  implement<"zeMemAllocDevice">(
      table.pfnAllocDevice,
      [](Line& line, auto context, auto* description, auto bytes, auto alignment, auto device, auto* data) {
        need(description, data);
        check_device(device);
        *data = allocate(line, device_kind, context, bytes, alignment);
      });
  implement<"zeMemAllocHost">(table.pfnAllocHost, [](Line& line, auto context, auto* description, auto bytes,
                                                     auto alignment, auto* data) {
    need(description, data);
    *data = allocate(line, host_kind, context, bytes, alignment);
  });
  implement<"zeMemFree">(table.pfnFree, [](Line& line, auto context, auto* data) {
    find<Context>(context);
    need(data);
    const auto found = state().allocations.find(reinterpret_cast<uintptr_t>(data));
    refuse_if(found == state().allocations.end(), ZE_RESULT_ERROR_INVALID_ARGUMENT);
    add(line, "%zu", found->second.bytes);
    if (found->second.kind != host_kind) state().device_bytes -= found->second.bytes;
    clSVMFree(state().context, found->second.base);
    state().allocations.erase(found);
  });
}

FE_TABLE(zeGetModuleProcAddrTable, ze_module_dditable_t) {
  implement<"zeModuleCreate">(
      table.pfnCreate, [](Line& line, auto context, auto device, auto* description, auto* module, auto* log) {
        find<Context>(context);
        check_device(device);
        need(description, module);
        need(description->pInputModule);
        add(line, "%zu", description->inputSize);
        refuse_if(description->format != ZE_MODULE_FORMAT_IL_SPIRV, ZE_RESULT_ERROR_UNSUPPORTED_ENUMERATION);
        refuse_if(description->pConstants, ZE_RESULT_ERROR_UNSUPPORTED_FEATURE);
        auto made = std::make_shared<Module>();
        auto text = std::make_shared<BuildLog>();
        if (log) hand_out(log, text);
        Words words(description->inputSize / 4);
        std::memcpy(words.data(), description->pInputModule, words.size() * 4);
        if (description->inputSize % 4 != 0) words.clear();
        build(*made, words, text->text);
        for (const auto& [name, entry] : made->spirv.entries) add(line, "%s", name.c_str());
        hand_out(module, std::move(made));
      });
  implement<"zeModuleDestroy">(table.pfnDestroy, [](Line&, auto module) { destroy<Module>(module); });
}

FE_TABLE(zeGetModuleBuildLogProcAddrTable, ze_module_build_log_dditable_t) {
  implement<"zeModuleBuildLogDestroy">(table.pfnDestroy, [](Line&, auto log) { destroy<BuildLog>(log); });
  implement<"zeModuleBuildLogGetString">(table.pfnGetString, [](Line&, auto log, auto* bytes, auto* text) {
    const auto found = find<BuildLog>(log);
    need(bytes);
    const size_t all = found->text.size() + 1;
    *bytes = text ? std::min(*bytes, all) : all;
    if (!text || *bytes == 0) return;
    std::memcpy(text, found->text.c_str(), *bytes - 1);
    text[*bytes - 1] = '\0';
  });
}

FE_TABLE(zeGetKernelProcAddrTable, ze_kernel_dditable_t) {
  implement<"zeKernelCreate">(table.pfnCreate, [](Line& line, auto module, auto* description, auto* kernel) {
    const auto from = find<Module>(module);
    need(description, kernel);
    need(description->pKernelName);
    add(line, "%s", description->pKernelName);
    auto made = std::make_shared<Kernel>();
    made->name = description->pKernelName;
    const auto entry = from->spirv.entries.find(made->name);
    refuse_if(entry == from->spirv.entries.end(), ZE_RESULT_ERROR_INVALID_KERNEL_NAME);
    made->kernel = clCreateKernel(from->program, made->name.c_str(), nullptr);
    refuse_if(!made->kernel, ZE_RESULT_ERROR_INVALID_KERNEL_NAME);
    made->entry = entry->second;
    made->settings.resize(made->entry.arguments.size());
    made->group_size = made->entry.group_size.value_or(made->group_size);
    hand_out(kernel, std::move(made));
  });
  implement<"zeKernelDestroy">(table.pfnDestroy, [](Line&, auto kernel) { destroy<Kernel>(kernel); });
  implement<"zeKernelSetGroupSize">(
      table.pfnSetGroupSize, [](Line& line, auto kernel, auto x, auto y, auto z) {
        add(line, "%u %u %u", x, y, z);
        const auto found = find<Kernel>(kernel);
        const Size3 size = {x, y, z};
        const bool fits =
            std::ranges::all_of(size, [](auto part) { return part > 0 && part <= max_group_size; }) &&
            uint64_t{x} * y * z <= max_group_size;
        refuse_if(!fits || found->entry.group_size.value_or(size) != size,
                  ZE_RESULT_ERROR_INVALID_GROUP_SIZE_DIMENSION);
        found->group_size = size;
      });
  implement<"zeKernelSetArgumentValue">(table.pfnSetArgumentValue, [](Line& line, auto kernel, auto index,
                                                                      auto bytes, auto* value) {
    add(line, "%u %zu", index, bytes);
    const auto found = find<Kernel>(kernel);
    refuse_if(index >= found->settings.size(), ZE_RESULT_ERROR_INVALID_KERNEL_ARGUMENT_INDEX);
    const auto [kind, wanted] = found->entry.arguments[index];
    refuse_if(bytes == 0 || (wanted != 0 && bytes != wanted), ZE_RESULT_ERROR_INVALID_KERNEL_ARGUMENT_SIZE);
    refuse_if(kind == Argument::Local && value, ZE_RESULT_ERROR_INVALID_ARGUMENT);
    if (kind == Argument::Value) need(value);
    Setting made{true, bytes, Bytes(kind == Argument::Local ? 0 : bytes)};
    if (value) std::memcpy(made.data.data(), value, bytes);  // none stands for a null pointer
    if (kind == Argument::Pointer) check_pointer(made.data.data());
    found->settings[index] = std::move(made);
  });
  implement<"zeKernelGetProperties">(table.pfnGetProperties, [](Line&, auto kernel, auto* properties) {
    const auto found = find<Kernel>(kernel);
    clear(properties);
    properties->numKernelArgs = static_cast<uint32_t>(found->settings.size());
    const auto [x, y, z] = found->entry.group_size.value_or(Size3{});
    properties->requiredGroupSizeX = x, properties->requiredGroupSizeY = y,
    properties->requiredGroupSizeZ = z;
    properties->maxSubgroupSize = 1;
    properties->maxNumSubgroups = max_group_size;
    cl_ulong bytes = 0;
    clGetKernelWorkGroupInfo(found->kernel, state().device, CL_KERNEL_LOCAL_MEM_SIZE, sizeof bytes, &bytes,
                             nullptr);
    properties->localMemSize = static_cast<uint32_t>(bytes);
  });
}

FE_TABLE(zeGetCommandListProcAddrTable, ze_command_list_dditable_t) {
  implement<"zeCommandListCreate">(table.pfnCreate,
                                   [](Line&, auto context, auto device, auto* description, auto* list) {
                                     make_list(false, context, device, description, list);
                                   });
  implement<"zeCommandListCreateImmediate">(
      table.pfnCreateImmediate, [](Line&, auto context, auto device, auto* description, auto* list) {
        make_list(true, context, device, description, list);
      });
  implement<"zeCommandListDestroy">(table.pfnDestroy, [](Line&, auto list) { destroy<List>(list); });
  implement<"zeCommandListClose">(table.pfnClose, [](Line&, auto list) { find<List>(list)->closed = true; });
  implement<"zeCommandListReset">(table.pfnReset, [](Line&, auto list) {
    const auto found = find<List>(list);
    found->closed = false;
    found->work.clear();
  });
  implement<"zeCommandListAppendBarrier">(table.pfnAppendBarrier,
                                          [](Line&, auto list, auto signal, auto wait_count, auto* wait) {
                                            append(list, {signal, wait_count, wait}, [] {});
                                          });
  implement<"zeCommandListAppendMemoryCopy">(
      table.pfnAppendMemoryCopy,
      [](Line& line, auto list, auto* to, auto* from, auto bytes, auto signal, auto wait_count, auto* wait) {
        const char *from_kind = kind(from), *to_kind = kind(to);
        add(line, "%zu %s %s", bytes, from_kind, to_kind);
        check_range(from, bytes);
        check_range(to, bytes);
        append(list, {signal, wait_count, wait}, [=] {
          refuse_if(kind(from) != from_kind || kind(to) != to_kind,
                    ZE_RESULT_ERROR_INVALID_ARGUMENT);  // freed
          std::memmove(to, from, bytes);
        });
      });
  implement<"zeCommandListAppendMemoryFill">(
      table.pfnAppendMemoryFill, [](Line& line, auto list, auto* to, auto* pattern, auto pattern_bytes,
                                    auto bytes, auto signal, auto wait_count, auto* wait) {
        add(line, "%zu %zu", pattern_bytes, bytes);
        need(pattern);
        check_range(to, bytes);
        refuse_if(!std::has_single_bit(pattern_bytes) || pattern_bytes > 128 || bytes % pattern_bytes != 0,
                  ZE_RESULT_ERROR_INVALID_SIZE);
        const auto* start = static_cast<const std::byte*>(pattern);
        append(list, {signal, wait_count, wait},
               [=, kept = Bytes(start, start + pattern_bytes), to_kind = kind(to)] {
                 refuse_if(kind(to) != to_kind, ZE_RESULT_ERROR_INVALID_ARGUMENT);  // freed
                 for (size_t at = 0; at < bytes; at += kept.size())
                   std::memcpy(static_cast<std::byte*>(to) + at, kept.data(), kept.size());
               });
      });
  implement<"zeCommandListAppendLaunchKernel">(
      table.pfnAppendLaunchKernel,
      [](Line& line, auto list, auto kernel, auto* groups, auto signal, auto wait_count, auto* wait) {
        const auto found = find<Kernel>(kernel);
        need(groups);
        const Size3 size = found->group_size;
        add(line, "%s %u %u %u of %u %u %u", found->name.c_str(), groups->groupCountX, groups->groupCountY,
            groups->groupCountZ, size[0], size[1], size[2]);
        // The arguments and the group size are those of now: they may be set anew before the work is done.
        append(list, {signal, wait_count, wait}, [found, settings = found->settings, size, groups = *groups] {
          launch(*found, settings, size, groups);
        });
      });
}

FE_TABLE(zeGetCommandQueueProcAddrTable, ze_command_queue_dditable_t) {
  implement<"zeCommandQueueCreate">(table.pfnCreate,
                                    [](Line&, auto context, auto device, auto* description, auto* queue) {
                                      find<Context>(context);
                                      check_device(device);
                                      need(description, queue);
                                      hand_out(queue, std::make_shared<Queue>());
                                    });
  implement<"zeCommandQueueDestroy">(table.pfnDestroy, [](Line&, auto queue) { destroy<Queue>(queue); });
  implement<"zeCommandQueueExecuteCommandLists">(
      table.pfnExecuteCommandLists, [](Line& line, auto queue, auto count, auto* lists, auto fence) {
        add(line, "%u", count);
        find<Queue>(queue);
        need(lists);
        refuse_if(fence, ZE_RESULT_ERROR_UNSUPPORTED_FEATURE);
        settle();
        for (const auto handle : std::span(lists, count)) {
          const auto list = find<List>(handle);
          refuse_if(list->immediate || !list->closed, ZE_RESULT_ERROR_INVALID_COMMAND_LIST_TYPE);
          for (const auto& work : list->work) work();
        }
      });
  implement<"zeCommandQueueSynchronize">(table.pfnSynchronize, [](Line&, auto queue, uint64_t) {
    find<Queue>(queue);
    settle();
  });
}

FE_TABLE(zeGetEventPoolProcAddrTable, ze_event_pool_dditable_t) {
  implement<"zeEventPoolCreate">(table.pfnCreate, [](Line&, auto context, auto* description,
                                                     auto device_count, auto* devices, auto* pool) {
    find<Context>(context);
    need(description, pool);
    refuse_if(description->count == 0, ZE_RESULT_ERROR_INVALID_SIZE);
    if (device_count > 0) need(devices);
    for (uint32_t i = 0; i < device_count; ++i) check_device(devices[i]);
    auto made = std::make_shared<EventPool>();
    made->count = description->count;
    hand_out(pool, std::move(made));
  });
  implement<"zeEventPoolDestroy">(table.pfnDestroy, [](Line&, auto pool) { destroy<EventPool>(pool); });
}

FE_TABLE(zeGetEventProcAddrTable, ze_event_dditable_t) {
  implement<"zeEventCreate">(table.pfnCreate, [](Line&, auto pool, auto* description, auto* event) {
    const auto from = find<EventPool>(pool);
    need(description, event);
    refuse_if(description->index >= from->count, ZE_RESULT_ERROR_INVALID_ARGUMENT);
    hand_out(event, std::make_shared<Event>());
  });
  implement<"zeEventDestroy">(table.pfnDestroy, [](Line&, auto event) { destroy<Event>(event); });
  implement<"zeEventHostSignal">(table.pfnHostSignal,
                                 [](Line&, auto event) { find<Event>(event)->signaled = true; });
  implement<"zeEventHostSynchronize">(table.pfnHostSynchronize,
                                      [](Line&, auto event, uint64_t) { wait_for(event); });
  implement<"zeEventQueryStatus">(table.pfnQueryStatus, [](Line&, auto event) { wait_for(event); });
  implement<"zeEventHostReset">(table.pfnHostReset,
                                [](Line&, auto event) { find<Event>(event)->signaled = false; });
}

// The loader takes a driver only if all tables can be had; its own are null before it asks.
// clang-format off
#define FE_EMPTY(name, type) \
  extern "C" ZE_DLLEXPORT ze_result_t ZE_APICALL name##ProcAddrTable(ze_api_version_t, type*) { \
    return ZE_RESULT_SUCCESS;  \
  }

FE_EMPTY(zeGetDeviceExp, ze_device_exp_dditable_t)
FE_EMPTY(zeGetEventExp, ze_event_exp_dditable_t)
FE_EMPTY(zeGetFabricEdgeExp, ze_fabric_edge_exp_dditable_t)
FE_EMPTY(zeGetFabricVertexExp, ze_fabric_vertex_exp_dditable_t)
FE_EMPTY(zeGetFence, ze_fence_dditable_t)
FE_EMPTY(zeGetImage, ze_image_dditable_t)
FE_EMPTY(zeGetImageExp, ze_image_exp_dditable_t)
FE_EMPTY(zeGetKernelExp, ze_kernel_exp_dditable_t)
FE_EMPTY(zeGetPhysicalMem, ze_physical_mem_dditable_t)
FE_EMPTY(zeGetSampler, ze_sampler_dditable_t)
FE_EMPTY(zeGetVirtualMem, ze_virtual_mem_dditable_t)
FE_EMPTY(zetGetDevice, void) FE_EMPTY(zetGetContext, void) FE_EMPTY(zetGetCommandList, void)
FE_EMPTY(zetGetKernel, void) FE_EMPTY(zetGetModule, void) FE_EMPTY(zetGetDebug, void)
FE_EMPTY(zetGetMetric, void) FE_EMPTY(zetGetMetricGroup, void) FE_EMPTY(zetGetMetricGroupExp, void)
FE_EMPTY(zetGetMetricQuery, void) FE_EMPTY(zetGetMetricQueryPool, void) FE_EMPTY(zetGetMetricStreamer, void)
FE_EMPTY(zetGetTracerExp, void) FE_EMPTY(zesGetDevice, void) FE_EMPTY(zesGetDriver, void)
FE_EMPTY(zesGetDiagnostics, void) FE_EMPTY(zesGetEngine, void) FE_EMPTY(zesGetFabricPort, void)
FE_EMPTY(zesGetFan, void) FE_EMPTY(zesGetFirmware, void) FE_EMPTY(zesGetFrequency, void)
FE_EMPTY(zesGetLed, void) FE_EMPTY(zesGetMemory, void) FE_EMPTY(zesGetPerformanceFactor, void)
FE_EMPTY(zesGetPower, void) FE_EMPTY(zesGetPsu, void) FE_EMPTY(zesGetRas, void)
FE_EMPTY(zesGetScheduler, void) FE_EMPTY(zesGetStandby, void) FE_EMPTY(zesGetTemperature, void)
    // clang-format on
