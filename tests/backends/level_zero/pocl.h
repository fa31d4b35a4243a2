// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The part of PoCL that the driver uses: shared virtual memory, programs and launches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "call_log.h"
#include "driver_state.h"

namespace pocl_driver {

/// Opens PoCL's device if it is not open yet.
void open_pocl();

/// Kinds of memory, with the names in the log; compared by address.
inline constexpr char device_kind[] = "device";
inline constexpr char host_kind[] = "host";
inline constexpr char shared_kind[] = "shared";
inline constexpr char no_kind[] = "unknown";

uint64_t device_memory();

/// The allocation that contains the address, with its start; null for other memory.
const std::pair<const uintptr_t, Allocation>* allocation(const void* data);
/// One of the kinds above.
const char* kind(const void* data);
/// A range that begins in an allocation must end there; other ranges belong to the host.
void check_range(const void* data, size_t bytes);
void* allocate(Line& line, const char* memory, const void* context, size_t bytes, size_t alignment);
/// The argument must be null, or point into live allocated memory.
void check_pointer(const void* argument);

/// Errors: ZE_RESULT_ERROR_MODULE_BUILD_FAILURE, with the reason in the log.
void build(Module& module, std::span<const uint32_t> words, std::string& log);
void launch(const Kernel& kernel, const std::vector<Setting>& settings, const Size3& group_size,
            const ze_group_count_t& groups);

}  // namespace pocl_driver
