// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The plugins that a path names.
#pragma once

#include <string>
#include <vector>

#include "core/support/error.h"

namespace ferrite::core::plugin_check {

/// One plugin on disk, as --plugin would enable it.
struct Target {
  std::string path;        ///< of the descriptor if there is one, else of the library
  std::string descriptor;  ///< empty: a library alone
};

/// The plugins of a path: a library (with the descriptor beside it that names it, else alone), a descriptor,
/// or a folder, which gives one target for each descriptor in it, by name. FE-M06 where there is no such
/// file, FE-M05 for a folder without descriptors.
Result<std::vector<Target>> find_targets(const std::string& path);

}  // namespace ferrite::core::plugin_check
