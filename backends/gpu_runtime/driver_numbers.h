// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Enumerators that have the same value in all drivers.
#pragma once
#include "ferrite/gpu_runtime/driver_runtime.h"

namespace ferrite::emitter {

inline constexpr Driver::Result success = 0, error_out_of_memory = 2, error_no_device = 100,
                                error_not_ready = 600;
inline constexpr int memory_of_device = 1, access_to_read_and_write = 3, attribute_release_threshold = 4;
inline constexpr unsigned host_of_all_devices = 1;
inline constexpr int jit_error_log = 5, jit_error_log_bytes = 6;
inline constexpr int attribute_shared = 1, attribute_local = 3, attribute_registers = 4,
                     attribute_dynamic_shared = 8;
inline constexpr unsigned stream_beside_others = 1, event_without_time = 2;
/// Other threads may still allocate memory, which other modes would forbid.
inline constexpr int record_this_thread = 1;

}  // namespace ferrite::emitter
