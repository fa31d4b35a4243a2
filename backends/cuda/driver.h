// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// NVIDIA's driver API, as much of it as is used, opened at run time: the types are the driver's, by its documented binary interface.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace ferrite::cuda {

inline constexpr const char* driver_library = "libcuda.so.1";

using Result = int;  ///< 0: success
using Ordinal = int;
using DevicePointer = uint64_t;
using Context = struct ContextHandle*;
using ModuleHandle = struct ModuleHandleTag*;
using FunctionHandle = struct FunctionHandleTag*;
using Stream = struct StreamHandle*;

inline constexpr Result success = 0, error_no_device = 100;

/// What is asked of a device.
enum Attribute : int {
  attribute_clock_khz = 13,
  attribute_multiprocessors = 16,
  attribute_memory_clock_khz = 36,
  attribute_bus_bits = 37,
  attribute_l2_bytes = 38,
  attribute_major = 75,
  attribute_minor = 76,
};
enum FunctionAttribute : int { attribute_dynamic_shared = 8 };
enum JitOption : int { jit_error_log = 5, jit_error_log_bytes = 6 };
inline constexpr unsigned stream_beside_others = 1;

/// The driver's functions. Immutable; any-thread, as the driver is.
struct Driver {
  Result (*init)(unsigned flags);
  Result (*version)(int* version);
  Result (*error_name)(Result, const char** name);
  Result (*error_text)(Result, const char** text);
  Result (*device_count)(int* count);
  Result (*device_get)(Ordinal* device, int number);
  Result (*device_name)(char* name, int length, Ordinal);
  Result (*device_attribute)(int* value, Attribute, Ordinal);
  Result (*device_memory)(size_t* bytes, Ordinal);
  Result (*context_retain)(Context*, Ordinal);
  Result (*context_set)(Context);
  Result (*alloc)(DevicePointer*, size_t bytes);
  Result (*free)(DevicePointer);
  Result (*copy_to_device)(DevicePointer to, const void* from, size_t bytes, Stream);
  Result (*copy_to_host)(void* to, DevicePointer from, size_t bytes, Stream);
  Result (*copy_on_device)(DevicePointer to, DevicePointer from, size_t bytes, Stream);
  Result (*stream_create)(Stream*, unsigned flags);
  Result (*stream_synchronise)(Stream);
  Result (*module_load)(ModuleHandle*, const void* image, unsigned options, JitOption*, void** values);
  Result (*module_unload)(ModuleHandle);
  Result (*module_function)(FunctionHandle*, ModuleHandle, const char* name);
  Result (*function_attribute)(FunctionHandle, FunctionAttribute, int value);
  Result (*launch)(FunctionHandle, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                   unsigned block_y, unsigned block_z, unsigned shared_bytes, Stream, void** arguments,
                   void** extra);
};

/// Opens and initialises the driver. Throws Failure ferrite.cuda/driver: the library or a function is missing, it is too old, or it
/// says that it cannot start. It stays open.
Driver open_driver(const std::string& library);

/// "CUDA_ERROR_OUT_OF_MEMORY (2): out of memory".
std::string text_of(const Driver& driver, Result result);

/// Throws Failure ferrite.cuda/device with what the driver says where the result is an error; `what` failed.
void check(const Driver& driver, Result result, const char* what);

}  // namespace ferrite::cuda
