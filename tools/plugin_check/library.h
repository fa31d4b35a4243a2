// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// L0: the files of a plugin, without running any of it.
#pragma once

#include "tools/plugin_check/levels.h"

namespace ferrite::core::plugin_check {

/// Descriptor, ELF file, exports, stack, relocations, and what the dynamic loader finds for it.
void check_files(const CheckOptions& options, Runner& runner);

}  // namespace ferrite::core::plugin_check
