// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <span>

namespace ferrite::emitter {

/// Transposes a square block in registers: n vectors of n lanes each, n a power of two. Element k of vector l
/// becomes element l of vector k.
void transpose_square(llvm::IRBuilder<>& builder, std::span<llvm::Value*> rows);

}  // namespace ferrite::emitter
