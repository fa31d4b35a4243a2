// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The inputs and outputs of a program as its users see them.
#pragma once

#include <span>
#include <vector>

#include "core/ir/loop/program.h"
#include "runtime/executable.h"

namespace ferrite::core::link {

using namespace ferrite::core::runtime;

/// Describes these buffers of a program as ports.
std::vector<PortInfo> describe_ports(const loop::LoopProgram& program,
                                     std::span<const loop::BufferId> buffers);

}  // namespace ferrite::core::link
