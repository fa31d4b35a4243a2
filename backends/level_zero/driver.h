// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The part of Level Zero that is used, opened at run time. Types and structures follow its documented binary
// interface, whose numbers are given next to them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace ferrite::level_zero {

inline constexpr const char* loader_library = "libze_loader.so.1";

using Result = uint32_t;
using DriverHandle = struct DriverTag*;
using DeviceHandle = struct DeviceTag*;
using Context = struct ContextTag*;
using List = struct ListTag*;
using EventPool = struct EventPoolTag*;
using Event = struct EventTag*;
using ModuleHandle = struct ModuleTag*;
using BuildLog = struct BuildLogTag*;
using Kernel = struct KernelTag*;

inline constexpr Result success = 0, error_device_lost = 0x70000001, error_out_of_host_memory = 0x70000002,
                        error_out_of_device_memory = 0x70000003, error_uninitialised = 0x78000001,
                        error_unsupported_feature = 0x78000003, error_unsupported_size = 0x78000009;

// Every structure begins with its type number, and a pointer to an extension.

struct DeviceProperties {
  uint32_t type = 0x3;
  const void* next = nullptr;
  uint32_t kind;  // device_kind_gpu
  uint32_t vendor, device, flags, subdevice;
  uint32_t core_clock_mhz;
  uint64_t largest_allocation;
  uint32_t hardware_contexts, queue_priority;
  uint32_t threads_per_eu, eu_lanes, eus_per_subslice, subslices_per_slice, slices;
  uint64_t timer_resolution;
  uint32_t timestamp_bits, kernel_timestamp_bits;
  std::array<uint8_t, 16> uuid;
  std::array<char, 256> name;
};
inline constexpr uint32_t device_kind_gpu = 1;

struct ComputeProperties {
  uint32_t type = 0x4;
  const void* next = nullptr;
  uint32_t group_size, group_size_x, group_size_y, group_size_z;
  uint32_t groups_x, groups_y, groups_z;
  uint32_t local_bytes;
  uint32_t subgroup_sizes;
  std::array<uint32_t, 8> subgroup_size;
};

struct ModuleProperties {
  uint32_t type = 0x5;
  const void* next = nullptr;
  uint32_t spirv_version;  // major * 65536 + minor
  uint32_t flags;
  uint32_t f16_flags, f32_flags, f64_flags;
  uint32_t arguments_bytes, printf_bytes;
  std::array<uint8_t, 16> native_uuid;
};
inline constexpr uint32_t module_has_f16 = 1, module_has_f64 = 2, module_has_atomics_64 = 4;

struct QueueGroupProperties {
  uint32_t type = 0x6;
  const void* next = nullptr;
  uint32_t flags;
  size_t fill_pattern_bytes;
  uint32_t queues;
};
inline constexpr uint32_t queue_group_computes = 1;

struct MemoryProperties {
  uint32_t type = 0x7;
  const void* next = nullptr;
  uint32_t flags;
  uint32_t clock_mhz, bus_bits;
  uint64_t bytes;
  std::array<char, 256> name;
};

struct CacheProperties {
  uint32_t type = 0x9;
  const void* next = nullptr;
  uint32_t flags;
  size_t bytes;
};

struct ContextDescription {
  uint32_t type = 0xd;
  const void* next = nullptr;
  uint32_t flags = 0;
};

struct QueueDescription {
  uint32_t type = 0xe;
  const void* next = nullptr;
  uint32_t ordinal = 0, index = 0, flags = 0;
  uint32_t mode = 0;
  uint32_t priority = 0;
};
inline constexpr uint32_t queue_is_asynchronous = 2;

struct EventPoolDescription {
  uint32_t type = 0x10;
  const void* next = nullptr;
  uint32_t flags = 0, count = 1;
};
inline constexpr uint32_t events_are_seen_by_host = 1;

struct EventDescription {
  uint32_t type = 0x11;
  const void* next = nullptr;
  uint32_t index = 0;
  uint32_t signal_scope = 0, wait_scope = 0;
};
inline constexpr uint32_t scope_of_host = 4;

struct AllocationDescription {
  uint32_t type = 0x15;
  const void* next = nullptr;
  uint32_t flags = 0, ordinal = 0;
};

struct ModuleDescription {
  uint32_t type = 0x1b;
  const void* next = nullptr;
  uint32_t format = 0;  // SPIR-V
  size_t bytes = 0;
  const void* code = nullptr;
  const char* build_flags = nullptr;
  const void* constants = nullptr;
};

struct KernelDescription {
  uint32_t type = 0x1d;
  const void* next = nullptr;
  uint32_t flags = 0;
  const char* name = nullptr;
};

struct GroupCount {
  uint32_t x = 1, y = 1, z = 1;
};

/// The loader's functions. Immutable. Callable from any thread, except that the caller orders calls on one
/// list, kernel or event.
struct Driver {
  Result (*init)(uint32_t flags);
  Result (*driver_get)(uint32_t* count, DriverHandle*);
  Result (*device_get)(DriverHandle, uint32_t* count, DeviceHandle*);
  Result (*device_properties)(DeviceHandle, DeviceProperties*);
  Result (*compute_properties)(DeviceHandle, ComputeProperties*);
  Result (*module_properties)(DeviceHandle, ModuleProperties*);
  Result (*queue_group_properties)(DeviceHandle, uint32_t* count, QueueGroupProperties*);
  Result (*memory_properties)(DeviceHandle, uint32_t* count, MemoryProperties*);
  Result (*cache_properties)(DeviceHandle, uint32_t* count, CacheProperties*);
  Result (*context_create)(DriverHandle, const ContextDescription*, Context*);
  Result (*context_status)(Context);
  Result (*context_destroy)(Context);
  Result (*list_create)(Context, DeviceHandle, const QueueDescription*, List*);
  Result (*list_destroy)(List);
  Result (*append_barrier)(List, Event signal, uint32_t waits, Event*);
  Result (*append_copy)(List, void* to, const void* from, size_t bytes, Event signal, uint32_t waits, Event*);
  Result (*append_launch)(List, Kernel, const GroupCount*, Event signal, uint32_t waits, Event*);
  Result (*event_pool_create)(Context, const EventPoolDescription*, uint32_t devices, DeviceHandle*,
                              EventPool*);
  Result (*event_pool_destroy)(EventPool);
  Result (*event_create)(EventPool, const EventDescription*, Event*);
  Result (*event_destroy)(Event);
  Result (*event_wait)(Event, uint64_t nanoseconds);
  Result (*event_reset)(Event);
  Result (*alloc)(Context, const AllocationDescription*, size_t bytes, size_t alignment, DeviceHandle,
                  void**);
  Result (*free)(Context, void*);
  Result (*module_create)(Context, DeviceHandle, const ModuleDescription*, ModuleHandle*, BuildLog*);
  Result (*module_destroy)(ModuleHandle);
  Result (*build_log_text)(BuildLog, size_t* bytes, char* text);
  Result (*build_log_destroy)(BuildLog);
  Result (*kernel_create)(ModuleHandle, const KernelDescription*, Kernel*);
  Result (*kernel_destroy)(Kernel);
  Result (*kernel_group_size)(Kernel, uint32_t x, uint32_t y, uint32_t z);
  Result (*kernel_argument)(Kernel, uint32_t index, size_t bytes, const void* value);
};

/// Destroys a driver object. Errors are ignored: the objects of a lost device are gone in any case.
template <class Tag>
struct Ender {
  Result (*function)(Tag*) = nullptr;
  void operator()(Tag* handle) const { function(handle); }
};
template <class Tag>
using Owned = std::unique_ptr<Tag, Ender<Tag>>;

/// Frees memory of a context, in the same way.
struct MemoryEnder {
  Result (*function)(Context, void*) = nullptr;
  Context context = nullptr;
  void operator()(void* data) const { function(context, data); }
};
using OwnedMemory = std::unique_ptr<void, MemoryEnder>;

/// Opens and initialises the loader, and with it the drivers that it finds. The library stays open. Throws
/// Failure ferrite.level_zero/driver if the library or a function is missing, if there is no driver, or if
/// none starts.
Driver open_driver(const std::string& name);

/// "the device is in use (0x70010001)".
std::string text_of(Result result);

/// If the result is an error, throws Failure ferrite.level_zero/device, or ferrite.level_zero/memory if
/// memory is exhausted, with the driver's text; `what` names the failed action.
void check(Result result, const char* what);

}  // namespace ferrite::level_zero
