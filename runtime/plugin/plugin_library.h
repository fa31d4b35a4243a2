// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Opens the library of a plugin for the lifetime of the process, and only if it has the locked hash.
#pragma once

#include <string>

#include "core/support/error.h"
#include "ferrite/abi/plugin.h"

namespace ferrite::core::plugin {

/// Opens the library and returns its entry. Libraries are never unloaded.
///
/// With a hash, the loader gets a sealed copy in memory that has this hash: replacing or writing the file
/// after it was hashed has no effect. Libraries with the same hash are loaded once.
/// FE-P01 no such file, FE-M14 it cannot be read, FE-M16 it is for another machine, FE-P40 it is truncated,
/// FE-P02 it does not load, FE-P03 no entry, FE-M23 another hash.
Result<fe_plugin_entry_v0_fn> open_library(const std::string& path, const std::string& sha256);

/// The SHA-256 of the library's current contents; FE-M14 if it cannot be read.
Result<std::string> hash_library(const std::string& path);

}  // namespace ferrite::core::plugin
