// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Inputs and outputs of a program, as those who run it see them.
#pragma once

#include <span>
#include <vector>

#include "core/ir/loop/program.h"
#include "runtime/executable.h"

namespace ferrite::core::runtime {

/// The ports that these buffers of a program are.
std::vector<PortInfo> describe_ports(const loop::LoopProgram& program,
                                     std::span<const loop::BufferId> buffers);

}  // namespace ferrite::core::runtime
