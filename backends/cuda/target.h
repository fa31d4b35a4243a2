// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// NVIDIA's devices as targets of the emitter.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ferrite/emitter/target.h"
#include "ferrite/gpu_runtime/gpu_description.h"

namespace ferrite::cuda {

/// Initialises LLVM's code generator once. Callable from any thread.
void initialise_llvm();

/// Throws Failure ferrite.cuda/target on unknown keys and architectures.
emitter::GpuDescription parse_device(std::string_view description);

emitter::Target target_of(const emitter::GpuDescription& device);

/// The architecture to compile for, given a device's compute capability (90: 9.0): its own, or the latest
/// known one whose code it runs. For a device that is too old, its own, which is unknown.
std::string architecture_for(int number);

/// Maximum bytes of shared memory of a block on a known architecture.
int64_t shared_bytes_of(std::string_view architecture);

/// The number of an architecture: 90 for sm_90a. Code for a name with a letter runs on that architecture
/// alone; other code also runs on later ones.
int number_of(std::string_view architecture);

}  // namespace ferrite::cuda
