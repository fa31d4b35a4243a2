// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A plugin's library in this process: opened for good, and only if it is the one that a lock names.
#pragma once

#include <string>

#include "core/support/error.h"
#include "ferrite/abi/plugin.h"

namespace ferrite::core::plugin {

/// Opens the library and gives its entry. Nothing is unloaded before the process ends.
///
/// With a hash, what is loaded is a copy in memory that nobody can write to any more and that has this hash: a file that is
/// exchanged or written to after it was hashed makes no difference. A library of the same hash is loaded once.
/// FE-P01 no such file, FE-M14 it cannot be read, FE-M16 it is for another machine, FE-P40 it is cut short, FE-P02 it does not load, FE-P03 no entry, FE-M23 another hash.
Result<fe_plugin_entry_v0_fn> open_library(const std::string& path, const std::string& sha256);

/// The SHA-256 of a library as it is now; FE-M14 where it cannot be read.
Result<std::string> hash_library(const std::string& path);

}  // namespace ferrite::core::plugin
