// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which plugins a path names.
#pragma once

#include <string>
#include <vector>

#include "core/support/error.h"

namespace ferrite::core::plugin_check {

/// One plugin on disk, as --plugin would enable it.
struct Target {
  std::string path;        ///< of the descriptor where there is one, else of the library
  std::string descriptor;  ///< empty: a library alone
};

/// A library (by the descriptor beside it that names it, else alone), a descriptor, or a folder, which gives one target for each
/// descriptor in it, by name. FE-M06 where there is no such file, FE-M05 for a folder without descriptors.
Result<std::vector<Target>> find_targets(const std::string& path);

}  // namespace ferrite::core::plugin_check
