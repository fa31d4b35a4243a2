// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The structure of the API: a table of functions for each kind of handle, and a body for each function.
#pragma once

#include <level_zero/ze_ddi.h>

#include <algorithm>
#include <exception>
#include <mutex>
#include <string>

#include "call_log.h"
#include "driver_state.h"
#include "planted_failures.h"

namespace pocl_driver {

/// Runs the body of a call, one at a time, unless the call must fail; writes the call's line.
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
  write_to_log(line);
  return result;
}

/// A function's name as a template argument.
template <size_t size>
struct Name {
  consteval Name(const char (&from)[size]) { std::copy_n(from, size, text); }  // NOLINT: from a literal
  char text[size];
};

/// Adapts the body, which has the log line as an additional first argument, to the signature of the table's
/// entry.
template <Name function, class Body, class... Arguments>
void implement(ze_result_t(ZE_APICALL*& entry)(Arguments...), Body) {
  entry = [](Arguments... arguments) {
    return call(function.text, [&](Line& line) { Body{}(line, arguments...); });
  };
}

}  // namespace pocl_driver

/// Defines the function through which the loader requests a table, and begins the function that fills it.
/// Missing entries are null and fail with ZE_RESULT_ERROR_UNSUPPORTED_FEATURE.
#define FE_TABLE(function, type)                                                           \
  static void fill_table(type& table);                                                     \
  extern "C" ZE_DLLEXPORT ze_result_t ZE_APICALL function(ze_api_version_t, type* table) { \
    if (!table) return ZE_RESULT_ERROR_INVALID_NULL_POINTER;                               \
    *table = {};                                                                           \
    fill_table(*table);                                                                    \
    return ZE_RESULT_SUCCESS;                                                              \
  }                                                                                        \
  static void fill_table(type& table)
