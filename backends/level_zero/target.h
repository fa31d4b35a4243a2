// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Intel's devices as the emitter sees them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ferrite/emitter/target.h"

namespace ferrite::level_zero {

/// What a description says: "spirv64 units=64 lanes=128 clock=1600000 bandwidth=2000 l2=... local=131072 f64=1". The code itself
/// is of no device: SPIR-V 1.2, with or without f64.
struct Device {
  int64_t units = 64;                ///< that run groups: slices of the device
  int64_t lanes = 128;               ///< of f32 that a unit computes in a cycle
  int64_t clock_khz = 1'600'000;     ///< at most
  int64_t gigabytes_a_second = 500;  ///< of memory
  int64_t l2_bytes = 16 << 20;
  int64_t local_bytes = 64 << 10;  ///< that a group shares
  bool f64 = false;                ///< what says nothing runs on devices without it, too
};

/// Initialises LLVM's code generator once; any-thread.
void initialise_llvm();

std::string describe(const Device& device);
/// What the description leaves out has the defaults above. Throws Failure ferrite.level_zero/target on unknown words.
Device parse_device(std::string_view description);

emitter::Target target_of(const Device& device);

}  // namespace ferrite::level_zero
