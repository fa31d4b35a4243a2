// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// AMD's devices as targets of the emitter.
#pragma once

#include <cstdint>
#include <string_view>

#include "ferrite/emitter/target.h"
#include "ferrite/gpu_runtime/gpu_description.h"

namespace ferrite::hip {

/// Initialises LLVM's code generator once. Callable from any thread.
void initialise_llvm();

/// Throws Failure ferrite.hip/target on unknown keys and architectures.
emitter::GpuDescription parse_device(std::string_view description);

/// Bits per pin and clock cycle of the memory.
int64_t transfers_a_clock(std::string_view architecture);

emitter::Target target_of(const emitter::GpuDescription& device);

}  // namespace ferrite::hip
