// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A runtime over a vendor's driver, which is opened at run time. Drivers of devices that run grids have the same functions, each under its
// own names and with numbers of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ferrite/emitter/grid_device.h"
#include "ferrite/emitter/grid_runtime.h"

namespace ferrite::emitter {

/// A driver's numbers of what is asked of a device.
struct DriverAttributes {
  int multiprocessors, clock_khz, memory_clock_khz, bus_bits, l2_bytes;
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
  Result (*stream_synchronise)(Handle stream);
  Result (*module_load)(Handle* module, const void* image, unsigned count, int* options, void** values);
  Result (*module_unload)(Handle module);
  Result (*module_function)(Handle* function, Handle module, const char* name);
  Result (*function_attribute)(Handle function, int attribute, int value);
  Result (*launch)(Handle function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                   unsigned block_y, unsigned block_z, unsigned shared_bytes, Handle stream, void** arguments,
                   void** extra);
  DriverAttributes attributes;
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
  /// Null where there is none.
  void* symbol(const char* name) const;
  [[noreturn]] void unavailable(const std::string& what) const;

 private:
  std::string code_, advice_;
  void* handle_ = nullptr;
};

/// A runtime whose driver has these functions. What runs on a device is on one stream of its own, in order.
class DriverRuntime : public GridRuntime {
 public:
  uint32_t device_count() final;
  DeviceDescription describe(uint32_t number) final;
  void* alloc(uint32_t number, uint64_t bytes) final;
  void free(uint32_t number, void* data) final;
  void copy(const fe_copy_args& args) final;
  void synchronise(uint32_t number) final;

 protected:
  using Result = Driver::Result;
  using Handle = Driver::Handle;

  /// Opens the driver and starts it, where there is a device. Throws Failure where there is no driver that does. Called once.
  virtual Driver open() = 0;
  /// "THE_NAME (2): what it means".
  virtual std::string text_of(Result result) const = 0;
  /// As target descriptions name it.
  virtual std::string architecture_of(int device) = 0;
  /// Bits that each of the pins of its memory moves in a clock.
  virtual int64_t transfers_a_clock(std::string_view architecture) const = 0;
  /// Of DLPack's numbers.
  virtual int32_t dlpack_device() const = 0;
  /// Makes the device the thread's own. `context` is null at first and kept with the device.
  virtual void enter(int device, Handle& context) = 0;

  /// Throws Failure with what the driver says where the result is an error; `what` failed.
  void check(Result result, const char* what) const;
  /// Of an opened driver.
  int attribute(int device, int which);

  LoadedCode load(uint32_t number, const DeviceCode& code) final;
  void unload(uint32_t number, std::span<const LoadedCode> codes) final;
  void start(uint32_t number, void* function, const DeviceCode& code,
             std::span<const void* const> arguments) final;

 private:
  /// What lasts as long as the process.
  struct Opened {
    int device = 0;
    Handle context = nullptr;
    Handle stream = nullptr;
  };
  const Driver& driver();
  GridDevice device_of(int device);
  const Opened& enter(uint32_t number);

  std::mutex mutex_;
  std::optional<Driver> driver_;
  std::map<uint32_t, Opened> devices_;  ///< addresses stay
};

}  // namespace ferrite::emitter
