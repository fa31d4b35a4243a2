// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Shared parts of the driver's functions: refusing a call, the objects behind handles, and the driver's
// state.
#pragma once

#define CL_TARGET_OPENCL_VERSION 200
#include <CL/cl.h>
#include <level_zero/ze_api.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "spirv_reader.h"

namespace pocl_driver {

using Bytes = std::vector<std::byte>;
using Work = std::function<void()>;

constexpr uint32_t max_group_size = 1024, max_local_memory = 64 << 10;

// ---- errors: thrown inside, returned by the API's functions ----

struct Refusal {
  ze_result_t result;
};
inline void refuse_if(bool wrong, ze_result_t result) {
  if (wrong) throw Refusal{result};
}
template <class... Pointers>
void need(const Pointers*... pointers) {
  refuse_if((... || (pointers == nullptr)), ZE_RESULT_ERROR_INVALID_NULL_POINTER);
}

// ---- the objects behind handles ----

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
/// An argument of a kernel; a local one has a size and no data.
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
  cl_kernel kernel = nullptr;  // keeps its program alive
  EntryPoint entry;
  std::vector<Setting> settings;
  Size3 group_size = {1, 1, 1};
};
struct List : Object {
  bool immediate = false, closed = false;
  std::vector<Work> work;
};
struct Allocation {
  void* base;  // address from PoCL, which is below the data if the alignment requires it
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

/// Never destroyed: PoCL's threads and the program's own destructors may still be active when the process
/// ends.
State& state();

/// A number from an environment variable.
uint64_t setting(const char* name, uint64_t fallback);

/// Does the deferred work of immediate lists. After an error the rest is dropped, as on a lost device.
void settle();

// ---- handles and arguments ----

/// The living object of this type behind the handle.
template <class T>
std::shared_ptr<T> find(const void* handle) {
  refuse_if(!handle, ZE_RESULT_ERROR_INVALID_NULL_HANDLE);
  const auto found = state().objects.find(handle);
  refuse_if(found == state().objects.end(), ZE_RESULT_ERROR_INVALID_ARGUMENT);
  auto object = std::dynamic_pointer_cast<T>(found->second);
  refuse_if(!object, ZE_RESULT_ERROR_INVALID_ARGUMENT);
  return object;
}
void check_driver(const void* handle);
void check_device(const void* handle);

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

/// Returns a list in the way of Level Zero: its length if no elements are requested, else as many elements as
/// fit.
template <class T>
void give(uint32_t* count, T* out, uint32_t available, const T& only) {
  need(count);
  const bool asks = *count == 0;
  if (!asks) need(out);
  *count = asks ? available : std::min(*count, available);
  if (!asks && *count > 0) *out = only;
}

/// Clears a properties structure, except for the members that the caller set.
template <class T>
void clear(T* properties) {
  need(properties);
  const auto kind = properties->stype;
  auto* const next = properties->pNext;
  *properties = {};
  properties->stype = kind;
  properties->pNext = next;
}

}  // namespace pocl_driver
