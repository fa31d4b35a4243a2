// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace ferrite::core {

/// How to treat a symbolic link with the file's name: write its target, or replace the link.
enum class Links : uint8_t { followed, replaced };

/// Replaces a file atomically: writes `chunks`, in order, to a temporary file in the same folder and renames
/// it. Concurrent readers see either all of the old file or all of the new one. Only the owner may write to
/// the new file. An existing path that is no regular file (a device, for example) is kept, and the call
/// fails. A link is followed or replaced, as `links` says. Returns the reason of a failure, empty on success;
/// on failure no temporary file is left. Safe for several threads and processes at a time.
std::string replace_file(const std::string& path, std::span<const std::span<const std::byte>> chunks,
                         Links links = Links::followed);

/// Whether `name` is a temporary name that replace_file() gives to a file whose final name ends in `suffix`.
bool is_unfinished(std::string_view name, std::string_view suffix);

}  // namespace ferrite::core
