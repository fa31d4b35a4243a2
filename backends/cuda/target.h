// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// NVIDIA's devices as the emitter sees them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ferrite/emitter/target.h"

namespace ferrite::cuda {

/// What a description says: "sm_90a multiprocessors=132 clock=1980000 bandwidth=4800 l2=52428800", in kHz, GB a second and bytes.
struct Device {
  std::string architecture;  ///< sm_80, sm_90a, ...
  int64_t multiprocessors = 108, clock_khz = 1'400'000, gigabytes_a_second = 1500, l2_bytes = 40 << 20;
};

/// Initialises LLVM's code generator once; any-thread.
void initialise_llvm();

std::string describe(const Device& device);
/// What the description leaves out has the defaults above. Throws Failure ferrite.cuda/target on unknown keys and architectures.
Device parse_device(std::string_view description);

emitter::Target target_of(const Device& device);

/// The numbers of an architecture: 90 of sm_90a. Code of one with a letter runs on that alone, other code on later ones too.
int number_of(std::string_view architecture);

}  // namespace ferrite::cuda
