// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How the API is written: a table of functions for each kind of handle, and a body for each function.
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
  write_to_log(line);
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

}  // namespace pocl_driver

/// Defines the function by which the loader asks for a table, and begins the one that fills it. What a table lacks is null and fails with
/// ZE_RESULT_ERROR_UNSUPPORTED_FEATURE.
#define FE_TABLE(function, type)                                                           \
  static void fill_table(type& table);                                                     \
  extern "C" ZE_DLLEXPORT ze_result_t ZE_APICALL function(ze_api_version_t, type* table) { \
    if (!table) return ZE_RESULT_ERROR_INVALID_NULL_POINTER;                               \
    *table = {};                                                                           \
    fill_table(*table);                                                                    \
    return ZE_RESULT_SUCCESS;                                                              \
  }                                                                                        \
  static void fill_table(type& table)
