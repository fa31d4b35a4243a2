// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Code objects: the shared ELF objects that AMD's loader accepts.
#pragma once

#include <cstdint>
#include <string>

namespace ferrite::hip {

/// Links a relocatable object. Throws Failure ferrite.hip/linker with the linker's text. Callable from any
/// thread; calls run one at a time.
std::string link_code_object(const std::string& object);

/// Numbers from the metadata of a code object's kernel; -1: unknown.
struct KernelNumbers {
  int64_t vector_registers = -1;
  int64_t spills = -1;  ///< spills of vector and scalar registers
};
KernelNumbers numbers_of_code_object(const std::string& code_object);

}  // namespace ferrite::hip
