// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The files of a zip archive in memory, which stores them as they are.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "ferrite/provider.hpp"

namespace ferrite::from_torch {

struct StoredRange {
  uint64_t offset = 0, bytes = 0;
};

/// The files of the archive, without its first folder, as ranges of its bytes. FE-I51.
std::map<std::string, StoredRange> files_of(Bytes bytes);

/// FE-I51 with what is wrong.
[[noreturn]] void damaged_archive(const std::string& what);

}  // namespace ferrite::from_torch
