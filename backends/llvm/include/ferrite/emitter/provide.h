// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What providers that use the emitter have in common.
#pragma once

#include <llvm/IR/Module.h>

#include <string>
#include <string_view>
#include <vector>

#include "ferrite/loop.hpp"
#include "ferrite/provider.hpp"

namespace ferrite::emitter {

/// Each line of a text as a comment.
std::string comment(std::string_view text, std::string_view mark);
/// The kernel that the bytes hold. Throws Failure `code`.
loop::Kernel read_kernel_bytes(Bytes bytes, std::string_view code);
/// What the kernel reaches through its arguments.
std::vector<fe_argument_needs> arguments_of(const loop::Kernel& kernel);
/// Throws Failure `code` where the module is malformed, which is the emitter's fault.
void verify_module(const llvm::Module& module, std::string_view code);

}  // namespace ferrite::emitter
