// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// NVIDIA's devices as the emitter sees them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ferrite/emitter/target.h"
#include "ferrite/gpu_runtime/gpu_description.h"

namespace ferrite::cuda {

/// Initialises LLVM's code generator once; any-thread.
void initialise_llvm();

/// Throws Failure ferrite.cuda/target on unknown keys and architectures.
emitter::GpuDescription parse_device(std::string_view description);

emitter::Target target_of(const emitter::GpuDescription& device);

/// The architecture to make code for of a device of these numbers (90: 9.0): its own, or the latest known one whose code it runs; of a
/// device that is too old, its own, which is unknown.
std::string architecture_for(int number);

/// Bytes of shared memory that a block of a known architecture can have.
int64_t shared_bytes_of(std::string_view architecture);

/// The numbers of an architecture: 90 of sm_90a. Code of one with a letter runs on that alone, other code on later ones too.
int number_of(std::string_view architecture);

}  // namespace ferrite::cuda
