// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Instructions that the threads of a warp do together, in software, by the manuals: the PTX manual of CUDA 13 and those of AMD's CDNA and
// RDNA instruction sets (the formulas of the latter as AMD's matrix instruction calculator gives them).
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace ferrite::kernel_test {

/// What one lane gives to an instruction, and where its result goes.
struct LaneOperands {
  void* const* operands = nullptr;
  void* result = nullptr;
};

/// Does the LLVM intrinsic for a whole warp. Empty, or what is wrong.
std::string execute(std::string_view name, std::span<const LaneOperands> lanes);

}  // namespace ferrite::kernel_test
