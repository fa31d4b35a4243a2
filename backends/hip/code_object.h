// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Code objects: the shared ELF objects that AMD's loader takes.
#pragma once

#include <cstdint>
#include <string>

namespace ferrite::hip {

/// Links a relocatable object. Throws Failure ferrite.hip/linker with what the linker says. Any-thread: one at a time.
std::string link_code_object(const std::string& object);

/// What the metadata of a code object says of its kernel; -1: nothing.
struct KernelNumbers {
  int64_t vector_registers = -1;
  int64_t spills = -1;  ///< of registers of both kinds
};
KernelNumbers numbers_of_code_object(const std::string& code_object);

}  // namespace ferrite::hip
