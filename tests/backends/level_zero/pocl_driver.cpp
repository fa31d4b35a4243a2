// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A Level Zero driver that computes on the CPU. Memory is PoCL's shared virtual memory; a SPIR-V module
// passes through spirv-val and llvm-spirv-15 and becomes a PoCL program. The loader finds the driver by
// ZE_ENABLE_ALT_DRIVERS=libpocl_driver.so. Work is done when it is appended to an immediate list, and for
// other lists when a queue executes them. Arguments are checked more strictly than by a device's driver, so
// that undefined behaviour there fails here.
//
//   POCL_DRIVER_LOG=FILE         receives a line for each call: the function, its important numbers, and its
//                                error if it failed
//   POCL_DRIVER_FAIL=FUNCTION:N  the N-th call of the function fails; several are separated by commas. The
//                                loader calls zeInit twice
//   POCL_DRIVER_ERROR=NUMBER     the error of such calls, instead of a lost device; deferred work is still
//                                done
//   POCL_DRIVER_LOSE=FUNCTION:N  the device is lost in that call: it and all later ones fail, except those
//                                that destroy something, as long as the variable is set
//   POCL_DRIVER_DEVICES=0|1      the number of devices
//   POCL_DRIVER_MEMORY=BYTES     the device's memory; allocations beyond it fail
//   POCL_DRIVER_LATE=1           immediate lists defer their work until the host waits for an unsignaled
//                                event: this exposes programs that forget to wait, or wait for an event that
//                                an earlier wait left signaled
//   POCL_DRIVER_FLAGS=NUMBER     the features of modules, ze_device_module_flags_t; default: all
//   POCL_DRIVER_TRANSLATOR=PATH  replaces llvm-spirv-15
//
// Needs libze-dev and ocl-icd-opencl-dev; at run time libze1, pocl-opencl-icd, spirv-tools and llvm-spirv-15.
//
// This file has the functions for devices and programs; work_api.cpp has those for work.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>

#include "implement.h"
#include "pocl.h"

namespace pocl_driver {

FE_TABLE(zeGetGlobalProcAddrTable, ze_global_dditable_t) {
  implement<"zeInit">(table.pfnInit, [](Line&, auto flags) {
    refuse_if(flags > 3, ZE_RESULT_ERROR_INVALID_ENUMERATION);
    open_pocl();
  });
}

FE_TABLE(zeGetDriverProcAddrTable, ze_driver_dditable_t) {
  implement<"zeDriverGet">(table.pfnGet, [](Line&, auto* count, auto* drivers) {
    const auto only = reinterpret_cast<ze_driver_handle_t>(&state().driver_handle);
    give(count, drivers, 1, only);
  });
  implement<"zeDriverGetApiVersion">(table.pfnGetApiVersion, [](Line&, auto driver, auto* version) {
    check_driver(driver);
    need(version);
    *version = ZE_API_VERSION_CURRENT;
  });
  implement<"zeDriverGetProperties">(table.pfnGetProperties, [](Line&, auto driver, auto* properties) {
    check_driver(driver);
    clear(properties);
    properties->driverVersion = 1;
  });
}

FE_TABLE(zeGetDeviceProcAddrTable, ze_device_dditable_t) {
  implement<"zeDeviceGet">(table.pfnGet, [](Line&, auto driver, auto* count, auto* devices) {
    check_driver(driver);
    const auto only = reinterpret_cast<ze_device_handle_t>(&state().device_handle);
    give(count, devices, setting("POCL_DRIVER_DEVICES", 1) != 0 ? 1 : 0, only);
  });
  implement<"zeDeviceGetProperties">(table.pfnGetProperties, [](Line&, auto device, auto* properties) {
    check_device(device);
    clear(properties);
    properties->type = ZE_DEVICE_TYPE_GPU;  // programs look for this type
    properties->vendorId = 0x8086;
    properties->coreClockRate = 1000;
    properties->maxMemAllocSize = device_memory();
    properties->maxHardwareContexts = 1;
    properties->numThreadsPerEU = properties->numSubslicesPerSlice = properties->numSlices = 1;
    properties->physicalEUSimdWidth = 8;
    clGetDeviceInfo(state().device, CL_DEVICE_MAX_COMPUTE_UNITS, sizeof(cl_uint),
                    &properties->numEUsPerSubslice, nullptr);
    properties->timerResolution = 1;
    properties->timestampValidBits = properties->kernelTimestampValidBits = 64;
    std::snprintf(properties->name, sizeof properties->name, "PoCL as a Level Zero Device");
  });
  implement<"zeDeviceGetComputeProperties">(
      table.pfnGetComputeProperties, [](Line&, auto device, auto* properties) {
        check_device(device);
        clear(properties);
        properties->maxTotalGroupSize = max_group_size;
        properties->maxGroupSizeX = properties->maxGroupSizeY = properties->maxGroupSizeZ = max_group_size;
        properties->maxGroupCountX = properties->maxGroupCountY = properties->maxGroupCountZ = UINT32_MAX;
        properties->maxSharedLocalMemory = max_local_memory;
        properties->numSubGroupSizes = 1;  // PoCL 3.1 has no sub-group functions
        properties->subGroupSizes[0] = 1;
      });
  implement<"zeDeviceGetModuleProperties">(
      table.pfnGetModuleProperties, [](Line&, auto device, auto* properties) {
        check_device(device);
        clear(properties);
        properties->spirvVersionSupported = ZE_MAKE_VERSION(1, 2);
        properties->flags = static_cast<ze_device_module_flags_t>(setting(
            "POCL_DRIVER_FLAGS",
            ZE_DEVICE_MODULE_FLAG_FP16 | ZE_DEVICE_MODULE_FLAG_FP64 | ZE_DEVICE_MODULE_FLAG_INT64_ATOMICS));
        properties->fp16flags = properties->fp32flags = properties->fp64flags =
            ZE_DEVICE_FP_FLAG_DENORM | ZE_DEVICE_FP_FLAG_INF_NAN | ZE_DEVICE_FP_FLAG_ROUND_TO_NEAREST |
            ZE_DEVICE_FP_FLAG_FMA;
        properties->maxArgumentsSize = 1024;
      });
  implement<"zeDeviceGetCommandQueueGroupProperties">(
      table.pfnGetCommandQueueGroupProperties, [](Line&, auto device, auto* count, auto* properties) {
        check_device(device);
        ze_command_queue_group_properties_t only =
            properties ? *properties : ze_command_queue_group_properties_t{};
        clear(&only);
        only.flags = ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_COMPUTE | ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_COPY;
        only.maxMemoryFillPatternSize = 128;
        only.numQueues = 1;
        give(count, properties, 1, only);
      });
  implement<"zeDeviceGetMemoryProperties">(
      table.pfnGetMemoryProperties, [](Line&, auto device, auto* count, auto* properties) {
        check_device(device);
        ze_device_memory_properties_t only = properties ? *properties : ze_device_memory_properties_t{};
        clear(&only);
        only.totalSize = device_memory();
        only.maxClockRate = 1000;
        only.maxBusWidth = 64;
        give(count, properties, 1, only);
      });
  implement<"zeDeviceGetStatus">(table.pfnGetStatus, [](Line&, auto device) { check_device(device); });
}

FE_TABLE(zeGetContextProcAddrTable, ze_context_dditable_t) {
  implement<"zeContextCreate">(table.pfnCreate, [](Line&, auto driver, auto* description, auto* context) {
    check_driver(driver);
    need(description, context);
    hand_out(context, std::make_shared<Context>());
  });
  implement<"zeContextDestroy">(table.pfnDestroy, [](Line&, auto context) { destroy<Context>(context); });
  implement<"zeContextGetStatus">(table.pfnGetStatus, [](Line&, auto context) { find<Context>(context); });
}

FE_TABLE(zeGetMemProcAddrTable, ze_mem_dditable_t) {
  implement<"zeMemAllocShared">(table.pfnAllocShared,
                                [](Line& line, auto context, auto* description, auto* host, auto bytes,
                                   auto alignment, auto device, auto* data) {
                                  need(description, host, data);
                                  // Memory without a device is shared by all devices.
                                  if (device) check_device(device);
                                  *data = allocate(line, shared_kind, context, bytes, alignment);
                                });
  implement<"zeMemAllocDevice">(
      table.pfnAllocDevice,
      [](Line& line, auto context, auto* description, auto bytes, auto alignment, auto device, auto* data) {
        need(description, data);
        check_device(device);
        *data = allocate(line, device_kind, context, bytes, alignment);
      });
  implement<"zeMemAllocHost">(table.pfnAllocHost, [](Line& line, auto context, auto* description, auto bytes,
                                                     auto alignment, auto* data) {
    need(description, data);
    *data = allocate(line, host_kind, context, bytes, alignment);
  });
  implement<"zeMemFree">(table.pfnFree, [](Line& line, auto context, auto* data) {
    find<Context>(context);
    need(data);
    const auto found = state().allocations.find(reinterpret_cast<uintptr_t>(data));
    refuse_if(found == state().allocations.end(), ZE_RESULT_ERROR_INVALID_ARGUMENT);
    add(line, "%zu", found->second.bytes);
    if (found->second.kind != host_kind) state().device_bytes -= found->second.bytes;
    clSVMFree(state().context, found->second.base);
    state().allocations.erase(found);
  });
}

FE_TABLE(zeGetModuleProcAddrTable, ze_module_dditable_t) {
  implement<"zeModuleCreate">(
      table.pfnCreate, [](Line& line, auto context, auto device, auto* description, auto* module, auto* log) {
        find<Context>(context);
        check_device(device);
        need(description, module);
        need(description->pInputModule);
        add(line, "%zu", description->inputSize);
        refuse_if(description->format != ZE_MODULE_FORMAT_IL_SPIRV, ZE_RESULT_ERROR_UNSUPPORTED_ENUMERATION);
        refuse_if(description->pConstants, ZE_RESULT_ERROR_UNSUPPORTED_FEATURE);
        auto made = std::make_shared<Module>();
        auto text = std::make_shared<BuildLog>();
        if (log) hand_out(log, text);
        Words words(description->inputSize / 4);
        std::memcpy(words.data(), description->pInputModule, words.size() * 4);
        if (description->inputSize % 4 != 0) words.clear();
        build(*made, words, text->text);
        for (const auto& [name, entry] : made->spirv.entries) add(line, "%s", name.c_str());
        hand_out(module, std::move(made));
      });
  implement<"zeModuleDestroy">(table.pfnDestroy, [](Line&, auto module) { destroy<Module>(module); });
}

FE_TABLE(zeGetModuleBuildLogProcAddrTable, ze_module_build_log_dditable_t) {
  implement<"zeModuleBuildLogDestroy">(table.pfnDestroy, [](Line&, auto log) { destroy<BuildLog>(log); });
  implement<"zeModuleBuildLogGetString">(table.pfnGetString, [](Line&, auto log, auto* bytes, auto* text) {
    const auto found = find<BuildLog>(log);
    need(bytes);
    const size_t all = found->text.size() + 1;
    *bytes = text ? std::min(*bytes, all) : all;
    if (!text || *bytes == 0) return;
    std::memcpy(text, found->text.c_str(), *bytes - 1);
    text[*bytes - 1] = '\0';
  });
}

FE_TABLE(zeGetKernelProcAddrTable, ze_kernel_dditable_t) {
  implement<"zeKernelCreate">(table.pfnCreate, [](Line& line, auto module, auto* description, auto* kernel) {
    const auto from = find<Module>(module);
    need(description, kernel);
    need(description->pKernelName);
    add(line, "%s", description->pKernelName);
    auto made = std::make_shared<Kernel>();
    made->name = description->pKernelName;
    const auto entry = from->spirv.entries.find(made->name);
    refuse_if(entry == from->spirv.entries.end(), ZE_RESULT_ERROR_INVALID_KERNEL_NAME);
    made->kernel = clCreateKernel(from->program, made->name.c_str(), nullptr);
    refuse_if(!made->kernel, ZE_RESULT_ERROR_INVALID_KERNEL_NAME);
    made->entry = entry->second;
    made->settings.resize(made->entry.arguments.size());
    made->group_size = made->entry.group_size.value_or(made->group_size);
    hand_out(kernel, std::move(made));
  });
  implement<"zeKernelDestroy">(table.pfnDestroy, [](Line&, auto kernel) { destroy<Kernel>(kernel); });
  implement<"zeKernelSetGroupSize">(
      table.pfnSetGroupSize, [](Line& line, auto kernel, auto x, auto y, auto z) {
        add(line, "%u %u %u", x, y, z);
        const auto found = find<Kernel>(kernel);
        const Size3 size = {x, y, z};
        const bool fits =
            std::ranges::all_of(size, [](auto part) { return part > 0 && part <= max_group_size; }) &&
            uint64_t{x} * y * z <= max_group_size;
        refuse_if(!fits || found->entry.group_size.value_or(size) != size,
                  ZE_RESULT_ERROR_INVALID_GROUP_SIZE_DIMENSION);
        found->group_size = size;
      });
  implement<"zeKernelSetArgumentValue">(table.pfnSetArgumentValue, [](Line& line, auto kernel, auto index,
                                                                      auto bytes, auto* value) {
    add(line, "%u %zu", index, bytes);
    const auto found = find<Kernel>(kernel);
    refuse_if(index >= found->settings.size(), ZE_RESULT_ERROR_INVALID_KERNEL_ARGUMENT_INDEX);
    const auto [kind, wanted] = found->entry.arguments[index];
    refuse_if(bytes == 0 || (wanted != 0 && bytes != wanted), ZE_RESULT_ERROR_INVALID_KERNEL_ARGUMENT_SIZE);
    refuse_if(kind == Argument::Local && value, ZE_RESULT_ERROR_INVALID_ARGUMENT);
    if (kind == Argument::Value) need(value);
    Setting made{true, bytes, Bytes(kind == Argument::Local ? 0 : bytes)};
    if (value) std::memcpy(made.data.data(), value, bytes);  // no value stands for a null pointer
    if (kind == Argument::Pointer) check_pointer(made.data.data());
    found->settings[index] = std::move(made);
  });
  implement<"zeKernelGetProperties">(table.pfnGetProperties, [](Line&, auto kernel, auto* properties) {
    const auto found = find<Kernel>(kernel);
    clear(properties);
    properties->numKernelArgs = static_cast<uint32_t>(found->settings.size());
    const auto [x, y, z] = found->entry.group_size.value_or(Size3{});
    properties->requiredGroupSizeX = x, properties->requiredGroupSizeY = y,
    properties->requiredGroupSizeZ = z;
    properties->maxSubgroupSize = 1;
    properties->maxNumSubgroups = max_group_size;
    cl_ulong bytes = 0;
    clGetKernelWorkGroupInfo(found->kernel, state().device, CL_KERNEL_LOCAL_MEM_SIZE, sizeof bytes, &bytes,
                             nullptr);
    properties->localMemSize = static_cast<uint32_t>(bytes);
  });
}

// The loader accepts a driver only if it gets all tables; it passes null tables.
// clang-format off
#define FE_EMPTY(name, type) \
  extern "C" ZE_DLLEXPORT ze_result_t ZE_APICALL name##ProcAddrTable(ze_api_version_t, type*) { \
    return ZE_RESULT_SUCCESS;  \
  }

FE_EMPTY(zeGetDeviceExp, ze_device_exp_dditable_t)
FE_EMPTY(zeGetEventExp, ze_event_exp_dditable_t)
FE_EMPTY(zeGetFabricEdgeExp, ze_fabric_edge_exp_dditable_t)
FE_EMPTY(zeGetFabricVertexExp, ze_fabric_vertex_exp_dditable_t)
FE_EMPTY(zeGetFence, ze_fence_dditable_t)
FE_EMPTY(zeGetImage, ze_image_dditable_t)
FE_EMPTY(zeGetImageExp, ze_image_exp_dditable_t)
FE_EMPTY(zeGetKernelExp, ze_kernel_exp_dditable_t)
FE_EMPTY(zeGetPhysicalMem, ze_physical_mem_dditable_t)
FE_EMPTY(zeGetSampler, ze_sampler_dditable_t)
FE_EMPTY(zeGetVirtualMem, ze_virtual_mem_dditable_t)
FE_EMPTY(zetGetDevice, void) FE_EMPTY(zetGetContext, void) FE_EMPTY(zetGetCommandList, void)
FE_EMPTY(zetGetKernel, void) FE_EMPTY(zetGetModule, void) FE_EMPTY(zetGetDebug, void)
FE_EMPTY(zetGetMetric, void) FE_EMPTY(zetGetMetricGroup, void) FE_EMPTY(zetGetMetricGroupExp, void)
FE_EMPTY(zetGetMetricQuery, void) FE_EMPTY(zetGetMetricQueryPool, void) FE_EMPTY(zetGetMetricStreamer, void)
FE_EMPTY(zetGetTracerExp, void) FE_EMPTY(zesGetDevice, void) FE_EMPTY(zesGetDriver, void)
FE_EMPTY(zesGetDiagnostics, void) FE_EMPTY(zesGetEngine, void) FE_EMPTY(zesGetFabricPort, void)
FE_EMPTY(zesGetFan, void) FE_EMPTY(zesGetFirmware, void) FE_EMPTY(zesGetFrequency, void)
FE_EMPTY(zesGetLed, void) FE_EMPTY(zesGetMemory, void) FE_EMPTY(zesGetPerformanceFactor, void)
FE_EMPTY(zesGetPower, void) FE_EMPTY(zesGetPsu, void) FE_EMPTY(zesGetRas, void)
FE_EMPTY(zesGetScheduler, void) FE_EMPTY(zesGetStandby, void) FE_EMPTY(zesGetTemperature, void)
// clang-format on

}  // namespace pocl_driver
