// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A per-user folder of files that can be regenerated, such as a cache. Several processes may write it; each
// file is written completely or not at all.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/support/error.h"

namespace ferrite::core::cache {

/// "$XDG_CACHE_HOME/ferrite/NAME", else ~/.cache/ferrite/NAME. Empty if neither variable is set or the
/// program runs with another user's rights: then nothing is stored.
std::string user_folder(std::string_view name);

/// Why the files of the folder cannot be trusted: it belongs to another user, or others may write to it.
/// Empty if the folder is this user's own or does not exist yet.
std::string distrusted(const std::string& folder);

/// The contents of a file in a trusted folder. None if there is no such file, or if it is refused; `fault`
/// then gives the reason: it is no regular file, belongs to another user, is writable by others, is larger
/// than `most_bytes`, or cannot be read.
std::optional<std::string> read_file(const std::string& path, uint64_t most_bytes, std::string& fault);

/// replace_file() in a folder that is created, accessible to its owner only, if it does not exist. The first
/// call of a process for a folder and an extension removes what list_abandoned() gives.
std::string write_file(const std::string& folder, const std::string& name, std::string_view contents);

struct File {
  std::string name;
  uint64_t bytes = 0;
  int64_t unused = 0;          ///< seconds since the last use
  std::optional<int64_t> age;  ///< seconds since creation, if the file system records it
};
/// The files with this suffix, sorted by name. FE-K30 if the folder does not exist or cannot be read.
Result<std::vector<File>> list(const std::string& folder, std::string_view suffix);
/// The temporary files that interrupted calls of write_file() for such files left behind: those in which
/// nothing was written for an hour, since writing takes moments.
Result<std::vector<File>> list_abandoned(const std::string& folder, std::string_view suffix);

}  // namespace ferrite::core::cache
