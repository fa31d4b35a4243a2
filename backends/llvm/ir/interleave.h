// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <functional>

namespace ferrite::emitter {

/// Emits `count` independent code sequences, `sequence(0)` first, then interleaves their instructions: the
/// first ones first. A processor has a bounded instruction window; sequences in a row would fill it with few
/// of them and expose each one's latency. Sequences of more than one basic block are not interleaved. The
/// builder ends after the last one.
void interleave(llvm::IRBuilder<>& builder, size_t count, const std::function<void(size_t)>& sequence);

}  // namespace ferrite::emitter
