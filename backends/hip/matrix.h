// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The matrix instructions of AMD's architectures.
#pragma once

#include <string_view>
#include <vector>

#include "ferrite/emitter/target.h"

namespace ferrite::hip {

/// The matrix instructions of an architecture. If the code generator meets one of another architecture, it
/// ends the process.
std::vector<emitter::GpuMachine::Matrix> matrices_of(std::string_view architecture);

}  // namespace ferrite::hip
