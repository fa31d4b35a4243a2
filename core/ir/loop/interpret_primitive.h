// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Executes one scalar primitive over the lanes of registers.
#pragma once

#include "core/ir/loop/interpret_body.h"

namespace ferrite::core::loop::eval {

/// Writes lanes 0 to n - 1 of registers[instruction.to].
void run_prim(const Instruction& instruction, Register* registers, size_t n);

}  // namespace ferrite::core::loop::eval
