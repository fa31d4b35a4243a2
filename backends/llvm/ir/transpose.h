// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <span>

namespace ferrite::emitter {

/// Transposes a square block in registers: as many vectors of one type as each has lanes, a power of two. Element k of vector l
/// becomes element l of vector k.
void transpose_square(llvm::IRBuilder<>& builder, std::span<llvm::Value*> rows);

}  // namespace ferrite::emitter
