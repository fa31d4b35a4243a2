// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <llvm/IR/Module.h>

namespace ferrite::level_zero {

/// Rewrites constructs for which LLVM's code generator for SPIR-V 1.2 has no code or wrong code, or which
/// drivers reject: memory accesses through vectors of pointers or under masks, minima and maxima that keep
/// NaN, atomic additions of floats, scalar conditions of vector selects, masks as integers, and conversions
/// of vectors of halves. Must be the last step before code generation.
void spell_out(llvm::Module& module);

}  // namespace ferrite::level_zero
