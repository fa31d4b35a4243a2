// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <llvm/IR/Function.h>

namespace ferrite::emitter {

/// The attribute of a function whose instructions have interleaved sequences. The code generator should keep
/// their order.
inline constexpr const char* side_by_side = "ferrite-side-by-side";

inline void mark_side_by_side(llvm::Function& function) { function.addFnAttr(side_by_side); }
inline bool is_side_by_side(const llvm::Function& function) { return function.hasFnAttribute(side_by_side); }

}  // namespace ferrite::emitter
