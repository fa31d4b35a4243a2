// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// L0: the files of a plugin, without running any of its code.
#pragma once

#include "tools/plugin_check/levels.h"

namespace ferrite::core::plugin_check {

/// Checks the descriptor, the ELF file, exports, stack, relocations, and the dynamic loader's report.
void check_files(const CheckOptions& options, Runner& runner);

}  // namespace ferrite::core::plugin_check
