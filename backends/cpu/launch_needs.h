// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The needs of a kernel's launches, stored next to its code in the object. They are checked against what the
// package says about the kernel.
#pragma once

#include <llvm/IR/Module.h>

#include <string>
#include <string_view>

#include "ferrite/provider.hpp"

namespace ferrite::cpu {

/// The symbol of an entry's needs.
std::string needs_symbol(std::string_view entry);

/// Adds the needs to the module as a constant.
void add_needs(llvm::Module& module, std::string_view entry, const LaunchNeeds& needs);

/// Reads the needs at the symbol. Throws Failure ferrite.cpu/link if they have another version's form.
LaunchNeeds read_needs(const void* data);

}  // namespace ferrite::cpu
