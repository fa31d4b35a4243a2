// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A folder of files that can be made again: written whole or not at all, by several processes at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/support/error.h"

namespace ferrite::core::cache {

/// "$XDG_CACHE_HOME/ferrite/NAME", or below ~/.cache; empty where neither is set, or the program runs with another user's rights:
/// then nothing is kept.
std::string user_folder(std::string_view name);

/// Why files of the folder are not to be trusted: it is another user's, or others may write to it. Empty where it is one's own, or
/// not there yet.
std::string distrusted(const std::string& folder);

/// The contents of a file in a folder that is trusted. None where there is no such file, and where `fault` then says why it is not
/// used: it is no regular file, not one's own, one that others may write to, larger than `most_bytes`, or cannot be read.
std::optional<std::string> read_file(const std::string& path, uint64_t most_bytes, std::string& fault);

/// replace_file() in a folder that is made, for its owner alone, where it is not there.
std::string write_file(const std::string& folder, const std::string& name, std::string_view contents);

struct File {
  std::string name;
  uint64_t bytes = 0;
  int64_t unused = 0;          ///< seconds since it was last used
  std::optional<int64_t> age;  ///< seconds since it was made, where the file system says that
};
/// The files with this suffix, by name. FE-K30 where the folder is not there or cannot be read.
Result<std::vector<File>> list(const std::string& folder, std::string_view suffix);
/// What write_file() has not finished of such files, by writers at work and by those that were interrupted.
Result<std::vector<File>> list_unfinished(const std::string& folder, std::string_view suffix);

}  // namespace ferrite::core::cache
