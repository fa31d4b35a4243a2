// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The decisions that compilations share: a folder on disk.
#pragma once

#include <memory>
#include <string>

#include "core/select/decisions.h"

namespace ferrite::core::tune {

/// A folder with one file for each decision. The file's name is a hash of everything on which the decision
/// depends. An entry is checked against its own hash. A damaged one is renamed, with a warning (FE-T40), and
/// its kernel is decided again. FE-T41, a warning, where an entry cannot be written, and where other users
/// can write to the folder, which is not used then. Safe for any number of processes. Null: nothing is
/// stored, as with an empty name.
std::unique_ptr<const select::DecisionStore> open_store(const std::string& folder);

}  // namespace ferrite::core::tune
