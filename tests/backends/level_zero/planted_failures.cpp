// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "planted_failures.h"

#include <cstdlib>

#include "driver_state.h"

namespace pocl_driver {
namespace {

/// Whether the variable's list contains the call.
bool names(const char* variable, const std::string& function, int number) {
  const char* list = std::getenv(variable);
  return list && ("," + std::string(list) + ",").find("," + function + ":" + std::to_string(number) + ",") !=
                     std::string::npos;
}

}  // namespace

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

}  // namespace pocl_driver
