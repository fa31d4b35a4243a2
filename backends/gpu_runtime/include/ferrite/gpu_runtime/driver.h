// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A vendor's driver, opened at run time, as a table of functions. Drivers of devices that run grids have the same functions, each under
// its own names and with numbers of its own.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "ferrite/dynamic_library.hpp"

namespace ferrite::emitter {

/// A driver's numbers of what is asked of a device.
struct DriverAttributes {
  int multiprocessors, clock_khz, memory_clock_khz, bus_bits, l2_bytes;
};

/// Where memory lies, in the drivers' binary interface.
struct DriverLocation {
  int kind;  ///< 1: a device
  int number;
};
/// What a pool of memory is made of.
struct DriverPool {
  int memory = 1;   ///< as alloc gives it
  int handles = 0;  ///< for this process alone
  DriverLocation location;
  std::array<void*, 10> reserved{};  ///< as many zeros as any version reads
};
/// Who else reaches a pool's memory.
struct DriverAccess {
  DriverLocation location;
  int flags;  ///< 3: reads and writes
};

/// A driver's functions, by its documented binary interface: addresses and handles are as wide as pointers, choices are ints. Immutable;
/// any-thread, as the driver is.
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

  /// Pools whose memory streams take and give back in order. All are null where the driver has none.
  struct Pools {
    Result (*create)(Handle* pool, const DriverPool* properties);
    Result (*destroy)(Handle pool);
    Result (*set_attribute)(Handle pool, int attribute, void* value);
    Result (*set_access)(Handle pool, const DriverAccess* accesses, size_t count);
    Result (*trim)(Handle pool, size_t bytes);
    Result (*alloc)(void** data, size_t bytes, Handle pool, Handle stream);
    Result (*free)(void* data, Handle stream);
  } pools;

  /// Recordings of streams. All are null where the driver has none.
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

  /// What makes a device's code of what module_load() takes, too, but for one thread at a time. All are null where there is no such.
  struct Linker {
    int input;  ///< the kind of what is given
    Result (*create)(unsigned count, int* options, void** values, Handle* state);
    Result (*add)(Handle state, int kind, void* data, size_t bytes, const char* name, unsigned count,
                  int* options, void** values);
    Result (*complete)(Handle state, void** code, size_t* bytes);
    Result (*destroy)(Handle state);  ///< and of what complete() gave
  } linker;
};

/// A driver's shared library; it stays open.
class DriverLibrary {
 public:
  /// Opens the first of the files that there is. `advice` says how to get a driver that does. Throws Failure `code`.
  DriverLibrary(std::span<const std::string> files, std::string code, std::string advice);

  template <class Function>
  void find(const char* name, Function& function) const {
    function = reinterpret_cast<Function>(symbol(name));
    if (!function) unavailable(std::string("the driver has no function '") + name + "'");
  }
  /// The same for a table of functions without which the driver serves as well: found is false where one is missing.
  template <class Function>
  void find(const char* name, Function& function, bool& found) const {
    function = reinterpret_cast<Function>(symbol(name));
    found = found && function;
  }
  /// Null where there is none.
  void* symbol(const char* name) const { return library_.symbol(name); }
  [[noreturn]] void unavailable(const std::string& what) const;

 private:
  const DynamicLibrary library_;
  std::string code_, advice_;
};

}  // namespace ferrite::emitter
