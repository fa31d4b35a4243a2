// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// NVIDIA's devices as the emitter sees them.
#pragma once

#include <string_view>

#include "ferrite/emitter/grid_device.h"
#include "ferrite/emitter/target.h"

namespace ferrite::cuda {

/// Initialises LLVM's code generator once; any-thread.
void initialise_llvm();

/// Throws Failure ferrite.cuda/target on unknown keys and architectures.
emitter::GridDevice parse_device(std::string_view description);

emitter::Target target_of(const emitter::GridDevice& device);

/// The numbers of an architecture: 90 of sm_90a. Code of one with a letter runs on that alone, other code on later ones too.
int number_of(std::string_view architecture);

}  // namespace ferrite::cuda
