// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "driver_state.h"

#include <cstdlib>

namespace pocl_driver {
namespace {

void check_only(const void* handle, const int& only) {
  refuse_if(!handle, ZE_RESULT_ERROR_INVALID_NULL_HANDLE);
  refuse_if(handle != &only, ZE_RESULT_ERROR_INVALID_ARGUMENT);
}

}  // namespace

State& state() {
  static auto* made = new State;
  return *made;
}

uint64_t setting(const char* name, uint64_t fallback) {
  const char* text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 0) : fallback;
}

void settle() {
  auto late = std::exchange(state().late, {});
  for (const Work& work : late) work();
}

void check_driver(const void* handle) { check_only(handle, state().driver_handle); }
void check_device(const void* handle) { check_only(handle, state().device_handle); }

}  // namespace pocl_driver
