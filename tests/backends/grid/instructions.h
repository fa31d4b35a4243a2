// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Warp instructions in software, from the manuals: the PTX manual of CUDA 13, and those of AMD's CDNA and
// RDNA instruction sets (with the formulas of AMD's matrix instruction calculator).
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace ferrite::kernel_test {

/// One lane's operands of an instruction, and the destination of its result.
struct LaneOperands {
  void* const* operands = nullptr;
  void* result = nullptr;
};

/// Executes the LLVM intrinsic for a whole warp. Returns "" or an error text.
std::string execute(std::string_view name, std::span<const LaneOperands> lanes);

}  // namespace ferrite::kernel_test
