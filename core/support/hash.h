// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// XXH3-128, for tables and caches that are keyed by contents. Use SHA-256 (digest.h) where an attacker could
// gain from a collision.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

namespace ferrite::core {

/// The XXH3-128 hash of the bytes, as 32 hexadecimal digits.
std::string hash128(std::string_view bytes);
inline std::string hash128(std::span<const std::byte> bytes) {
  return hash128(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}
/// The hash of a file's contents; empty if the file cannot be read.
std::string file_hash128(const std::string& path);
/// The hash of several parts. The length of each part is hashed too, so that ("ab", "c") and ("a", "bc")
/// differ.
std::string hash128(std::initializer_list<std::string_view> parts);

}  // namespace ferrite::core
