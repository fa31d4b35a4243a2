// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A vendor's driver, opened at run time, as a table of functions. The GPU drivers have the same functions
// under different names and with different enumerators.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "ferrite/dynamic_library.hpp"

namespace ferrite::emitter {

/// A driver's enumerators for the properties of a device.
struct DriverAttributes {
  int multiprocessors, clock_khz, memory_clock_khz, bus_bits, l2_bytes;
};

/// A location of memory, in the drivers' binary interface.
struct DriverLocation {
  int kind;  ///< 1: a device
  int number;
};
/// The properties of a memory pool.
struct DriverPool {
  int memory = 1;   ///< the same kind of memory as alloc()
  int handles = 0;  ///< no sharing with other processes
  DriverLocation location;
  std::array<void*, 10> reserved{};  ///< zeros, enough for every driver version
};
/// Grants a device access to a pool's memory.
struct DriverAccess {
  DriverLocation location;
  int flags;  ///< 3: reading and writing
};

/// A driver's functions, by its documented binary interface: addresses and handles have the width of
/// pointers, enumerations are ints. Immutable. Callable from any thread, as the driver is.
struct Driver {
  using Result = int;  ///< 0: success
  using Handle = void*;

  Result (*device_count)(int* count);
  Result (*device_get)(int* device, int number);
  Result (*device_name)(char* name, int length, int device);
  Result (*device_attribute)(int* value, int attribute, int device);
  Result (*device_memory)(size_t* bytes, int device);
  Result (*alloc)(void** data, size_t bytes);
  Result (*free)(void* data);
  Result (*copy_to_device)(void* to, const void* from, size_t bytes, Handle stream);
  Result (*copy_to_host)(void* to, const void* from, size_t bytes, Handle stream);
  Result (*copy_on_device)(void* to, const void* from, size_t bytes, Handle stream);
  Result (*stream_create)(Handle* stream, unsigned flags);
  Result (*stream_destroy)(Handle stream);
  Result (*stream_query)(Handle stream);
  Result (*stream_synchronise)(Handle stream);
  Result (*stream_wait)(Handle stream, Handle event, unsigned flags);
  Result (*event_create)(Handle* event, unsigned flags);
  Result (*event_destroy)(Handle event);
  Result (*event_record)(Handle event, Handle stream);
  Result (*module_load)(Handle* module, const void* image, unsigned count, int* options, void** values);
  Result (*module_unload)(Handle module);
  Result (*module_function)(Handle* function, Handle module, const char* name);
  Result (*set_function_attribute)(Handle function, int attribute, int value);
  Result (*function_attribute)(int* value, int attribute, Handle function);
  Result (*host_alloc)(void** data, size_t bytes, unsigned flags);
  Result (*host_free)(void* data);
  Result (*reaches_peer)(int* reaches, int device, int peer);
  DriverAttributes attributes;

  /// Pools whose memory is allocated and freed in stream order. All are null if the driver has none.
  struct Pools {
    Result (*create)(Handle* pool, const DriverPool* properties);
    Result (*destroy)(Handle pool);
    Result (*set_attribute)(Handle pool, int attribute, void* value);
    Result (*set_access)(Handle pool, const DriverAccess* accesses, size_t count);
    Result (*trim)(Handle pool, size_t bytes);
    Result (*alloc)(void** data, size_t bytes, Handle pool, Handle stream);
    Result (*free)(void* data, Handle stream);
  } pools;

  /// Recordings of streams (graphs). All are null if the driver has none.
  struct Recordings {
    Result (*begin)(Handle stream, int mode);
    Result (*end)(Handle stream, Handle* graph);
    Result (*state)(Handle stream, int* state, uint64_t* id, Handle* graph, const Handle** last,
                    size_t* count);
    Result (*instantiate)(Handle* instance, Handle graph, unsigned long long flags);
    Result (*set_launch)(Handle instance, Handle node, const void* launch);
    Result (*launch)(Handle instance, Handle stream);
    Result (*free_instance)(Handle instance);
    Result (*free)(Handle graph);
  } recordings;

  /// Compiles the input of module_load() to device code for one caller at a time, in parallel with others.
  /// All are null if the driver has no linker.
  struct Linker {
    int input;  ///< kind of the input
    Result (*create)(unsigned count, int* options, void** values, Handle* state);
    Result (*add)(Handle state, int kind, void* data, size_t bytes, const char* name, unsigned count,
                  int* options, void** values);
    Result (*complete)(Handle state, void** code, size_t* bytes);
    Result (*destroy)(Handle state);  ///< also frees the result of complete()
  } linker;
};

/// A driver's shared library; it is never closed.
class DriverLibrary {
 public:
  /// Opens the first existing file. `advice` tells the user how to get a working driver. Throws Failure
  /// `code`.
  DriverLibrary(std::span<const std::string> files, std::string code, std::string advice);

  template <class Function>
  void find(const char* name, Function& function) const {
    function = reinterpret_cast<Function>(symbol(name));
    if (!function) unavailable(std::string("the driver has no function '") + name + "'");
  }
  /// The same for an optional table of functions: sets `found` to false if one is missing.
  template <class Function>
  void find(const char* name, Function& function, bool& found) const {
    function = reinterpret_cast<Function>(symbol(name));
    found = found && function;
  }
  /// Null if there is no such symbol.
  void* symbol(const char* name) const { return library_.symbol(name); }
  [[noreturn]] void unavailable(const std::string& what) const;

 private:
  const DynamicLibrary library_;
  std::string code_, advice_;
};

}  // namespace ferrite::emitter
