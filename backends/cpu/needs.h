// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What launches of a kernel need, beside its code in the same object: what is said of the kernel elsewhere is held against it.
#pragma once

#include <llvm/IR/Module.h>

#include <string>
#include <string_view>

#include "ferrite/provider.hpp"

namespace ferrite::cpu {

/// The symbol of an entry's needs.
std::string needs_symbol(std::string_view entry);

/// Adds them to the module as a constant.
void add_needs(llvm::Module& module, std::string_view entry, const LaunchNeeds& needs);

/// What lies at the symbol. Failure ferrite.cpu/link where it is of another layout.
LaunchNeeds read_needs(const void* data);

}  // namespace ferrite::cpu
