// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Intel's devices as targets of the emitter.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ferrite/emitter/target.h"

namespace ferrite::level_zero {

/// A device as in a description: "spirv64 units=64 lanes=128 clock=1600000 bandwidth=2000 l2=... local=131072
/// f64=1". The code itself depends on no device: it is SPIR-V 1.2, with or without f64.
struct Device {
  int64_t units = 64;                ///< slices of the device that run work-groups
  int64_t lanes = 128;               ///< f32 lanes of a unit per cycle
  int64_t clock_khz = 1'600'000;     ///< maximum
  int64_t gigabytes_a_second = 500;  ///< bandwidth of the memory
  int64_t l2_bytes = 16 << 20;
  int64_t local_bytes = 64 << 10;  ///< local memory of a work-group
  bool f64 = false;                ///< the default runs on devices without f64, too
};

/// Initialises LLVM's code generator once. Callable from any thread.
void initialise_llvm();

std::string describe(const Device& device);
/// Missing values have the defaults above. Throws Failure ferrite.level_zero/target on unknown words.
Device parse_device(std::string_view description);

emitter::Target target_of(const Device& device);

}  // namespace ferrite::level_zero
