// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <functional>

namespace ferrite::emitter {

/// Emits `count` pieces of code that do not depend on each other, `piece(0)` first, then merges them: first instructions first. A
/// processor has a bounded window of instructions; of pieces that stand one after the other it holds few, and waits for the latency
/// of each. Pieces that have more than one block stay as they were emitted. The builder ends after the last piece.
void interleave(llvm::IRBuilder<>& builder, size_t count, const std::function<void(size_t)>& piece);

/// Whether a function has merged pieces, whose order the code generator should keep.
bool is_side_by_side(const llvm::Function& function);

}  // namespace ferrite::emitter
