// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace ferrite::core {

/// What becomes of a link that lies in a file's place.
enum class Links : uint8_t { followed, replaced };

/// Writes a file of these pieces beside its place and renames it: who reads the file meanwhile has the one before or all of the new
/// one. Nobody but its owner may write to it. What is there and is no regular file, a device for example, stays and is a fault; a
/// link stays, and its file is replaced, or goes. Gives why nothing was written, empty where it was; nothing half-written is left. For
/// several threads and processes at once.
std::string replace_file(const std::string& path, std::span<const std::span<const std::byte>> pieces,
                         Links links = Links::followed);

/// Whether a name is one that replace_file() gives to what it has not finished of a file whose name ends so.
bool is_unfinished(std::string_view name, std::string_view suffix);

}  // namespace ferrite::core
