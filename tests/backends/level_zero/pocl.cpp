// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "pocl.h"

#include <array>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>

namespace pocl_driver {
namespace {

namespace fs = std::filesystem;

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

std::string file_text(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The module as bitcode, which Debian's PoCL 3.1 accepts instead of SPIR-V; "" if spirv-val or llvm-spirv-15
/// rejects it. The latter runs as a separate process, since some modules make it fail an assertion.
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

}  // namespace

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

uint64_t device_memory() { return setting("POCL_DRIVER_MEMORY", uint64_t{1} << 30); }

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
  // PoCL aligns to at most 128 bytes.
  const size_t aligned = std::max<size_t>(alignment, 64), extra = aligned > 128 ? aligned : 0;
  void* base =
      clSVMAlloc(state().context, CL_MEM_READ_WRITE | CL_MEM_SVM_FINE_GRAIN_BUFFER, bytes + extra, 128);
  refuse_if(!base, counted ? ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY : ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY);
  const auto start = (reinterpret_cast<uintptr_t>(base) + aligned - 1) / aligned * aligned;
  state().allocations[start] = {base, bytes, memory};
  state().device_bytes += counted;
  // Fresh memory that happens to be zero would hide a missing initialisation.
  return std::memset(reinterpret_cast<void*>(start), 0xcb, bytes);
}

void check_pointer(const void* argument) {
  const void* pointer = nullptr;
  std::memcpy(&pointer, argument, sizeof pointer);
  refuse_if(pointer && !allocation(pointer), ZE_RESULT_ERROR_INVALID_ARGUMENT);
}

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

}  // namespace pocl_driver
