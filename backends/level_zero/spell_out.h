// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <llvm/IR/Module.h>

namespace ferrite::level_zero {

/// Writes in other terms what LLVM's code generator for SPIR-V 1.2 has no code, or wrong code, for, or what drivers do not take: accesses
/// of memory by vectors of pointers or under masks, minima and maxima that keep NaN, atomic additions of floats, scalar conditions of
/// vectors, masks as numbers, conversions of vectors of halves. To be done last, before the module goes to the code generator.
void spell_out(llvm::Module& module);

}  // namespace ferrite::level_zero
