// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Code that all providers with this emitter share.
#pragma once

#include <llvm/IR/Module.h>

#include <string>
#include <string_view>
#include <vector>

#include "ferrite/loop.hpp"
#include "ferrite/provider.hpp"

namespace ferrite::emitter {

/// Turns each line of a text into a comment.
std::string comment(std::string_view text, std::string_view mark);
/// Decodes the kernel. Throws Failure with `code`.
loop::Kernel read_kernel_bytes(Bytes bytes, std::string_view code);
/// How the kernel accesses each of its arguments.
std::vector<fe_argument_needs> arguments_of(const loop::Kernel& kernel);
/// Throws Failure with `code` if the module is malformed, which is a bug of the emitter.
void verify_module(const llvm::Module& module, std::string_view code);

}  // namespace ferrite::emitter
