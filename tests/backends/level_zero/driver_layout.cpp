// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compares the backend's declarations of Level Zero with the real ones.
#include <level_zero/ze_api.h>

#include <cstddef>
#include <utility>

#include "backends/level_zero/driver.h"

namespace ferrite::level_zero {

#define FE_SAME(ours, our_member, theirs, their_member)                                                     \
  static_assert(offsetof(ours, our_member) == offsetof(theirs, their_member) &&                             \
                    sizeof(std::declval<ours>().our_member) == sizeof(std::declval<theirs>().their_member), \
                "a member lies elsewhere")
#define FE_STRUCTURE(ours, number, theirs)                                                       \
  static_assert(ours().type == (number) && sizeof(ours) == sizeof(theirs), "another structure"); \
  FE_SAME(ours, next, theirs, pNext)

FE_STRUCTURE(DeviceProperties, ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES, ze_device_properties_t);
FE_SAME(DeviceProperties, kind, ze_device_properties_t, type);
FE_SAME(DeviceProperties, core_clock_mhz, ze_device_properties_t, coreClockRate);
FE_SAME(DeviceProperties, eu_lanes, ze_device_properties_t, physicalEUSimdWidth);
FE_SAME(DeviceProperties, eus_per_subslice, ze_device_properties_t, numEUsPerSubslice);
FE_SAME(DeviceProperties, subslices_per_slice, ze_device_properties_t, numSubslicesPerSlice);
FE_SAME(DeviceProperties, slices, ze_device_properties_t, numSlices);
FE_SAME(DeviceProperties, name, ze_device_properties_t, name);
static_assert(device_kind_gpu == ZE_DEVICE_TYPE_GPU);

FE_STRUCTURE(ComputeProperties, ZE_STRUCTURE_TYPE_DEVICE_COMPUTE_PROPERTIES, ze_device_compute_properties_t);
FE_SAME(ComputeProperties, group_size, ze_device_compute_properties_t, maxTotalGroupSize);
FE_SAME(ComputeProperties, local_bytes, ze_device_compute_properties_t, maxSharedLocalMemory);

FE_STRUCTURE(ModuleProperties, ZE_STRUCTURE_TYPE_DEVICE_MODULE_PROPERTIES, ze_device_module_properties_t);
FE_SAME(ModuleProperties, spirv_version, ze_device_module_properties_t, spirvVersionSupported);
FE_SAME(ModuleProperties, flags, ze_device_module_properties_t, flags);
static_assert(module_has_f16 == ZE_DEVICE_MODULE_FLAG_FP16 && module_has_f64 == ZE_DEVICE_MODULE_FLAG_FP64 &&
              module_has_atomics_64 == ZE_DEVICE_MODULE_FLAG_INT64_ATOMICS);

FE_STRUCTURE(QueueGroupProperties, ZE_STRUCTURE_TYPE_COMMAND_QUEUE_GROUP_PROPERTIES,
             ze_command_queue_group_properties_t);
FE_SAME(QueueGroupProperties, flags, ze_command_queue_group_properties_t, flags);
static_assert(queue_group_computes == ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_COMPUTE);

FE_STRUCTURE(MemoryProperties, ZE_STRUCTURE_TYPE_DEVICE_MEMORY_PROPERTIES, ze_device_memory_properties_t);
FE_SAME(MemoryProperties, clock_mhz, ze_device_memory_properties_t, maxClockRate);
FE_SAME(MemoryProperties, bus_bits, ze_device_memory_properties_t, maxBusWidth);
FE_SAME(MemoryProperties, bytes, ze_device_memory_properties_t, totalSize);

FE_STRUCTURE(CacheProperties, ZE_STRUCTURE_TYPE_DEVICE_CACHE_PROPERTIES, ze_device_cache_properties_t);
FE_SAME(CacheProperties, bytes, ze_device_cache_properties_t, cacheSize);

FE_STRUCTURE(ContextDescription, ZE_STRUCTURE_TYPE_CONTEXT_DESC, ze_context_desc_t);

FE_STRUCTURE(QueueDescription, ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC, ze_command_queue_desc_t);
FE_SAME(QueueDescription, ordinal, ze_command_queue_desc_t, ordinal);
FE_SAME(QueueDescription, mode, ze_command_queue_desc_t, mode);
static_assert(queue_is_asynchronous == ZE_COMMAND_QUEUE_MODE_ASYNCHRONOUS);

FE_STRUCTURE(EventPoolDescription, ZE_STRUCTURE_TYPE_EVENT_POOL_DESC, ze_event_pool_desc_t);
FE_SAME(EventPoolDescription, flags, ze_event_pool_desc_t, flags);
FE_SAME(EventPoolDescription, count, ze_event_pool_desc_t, count);
static_assert(events_are_seen_by_host == ZE_EVENT_POOL_FLAG_HOST_VISIBLE);

FE_STRUCTURE(EventDescription, ZE_STRUCTURE_TYPE_EVENT_DESC, ze_event_desc_t);
FE_SAME(EventDescription, signal_scope, ze_event_desc_t, signal);
FE_SAME(EventDescription, wait_scope, ze_event_desc_t, wait);
static_assert(scope_of_host == ZE_EVENT_SCOPE_FLAG_HOST);

FE_STRUCTURE(AllocationDescription, ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC, ze_device_mem_alloc_desc_t);

FE_STRUCTURE(ModuleDescription, ZE_STRUCTURE_TYPE_MODULE_DESC, ze_module_desc_t);
FE_SAME(ModuleDescription, format, ze_module_desc_t, format);
FE_SAME(ModuleDescription, bytes, ze_module_desc_t, inputSize);
FE_SAME(ModuleDescription, code, ze_module_desc_t, pInputModule);
static_assert(ModuleDescription().format == ZE_MODULE_FORMAT_IL_SPIRV);

FE_STRUCTURE(KernelDescription, ZE_STRUCTURE_TYPE_KERNEL_DESC, ze_kernel_desc_t);
FE_SAME(KernelDescription, name, ze_kernel_desc_t, pKernelName);

static_assert(sizeof(GroupCount) == sizeof(ze_group_count_t));
static_assert(error_device_lost == ZE_RESULT_ERROR_DEVICE_LOST &&
              error_out_of_host_memory == ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY &&
              error_out_of_device_memory == ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY &&
              error_uninitialised == ZE_RESULT_ERROR_UNINITIALIZED &&
              error_unsupported_feature == ZE_RESULT_ERROR_UNSUPPORTED_FEATURE &&
              error_unsupported_size == ZE_RESULT_ERROR_UNSUPPORTED_SIZE);

}  // namespace ferrite::level_zero
