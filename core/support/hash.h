// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// XXH3-128, for what is looked up by its contents. Not for what somebody may want to forge: that takes SHA-256 (digest.h).
#pragma once

#include <cstddef>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

namespace ferrite::core {

/// 32 hexadecimal digits.
std::string hash128(std::string_view bytes);
inline std::string hash128(std::span<const std::byte> bytes) {
  return hash128(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}
/// Of a file; empty where it cannot be read.
std::string file_hash128(const std::string& path);
/// Of several parts with their lengths, which keep them apart.
std::string hash128(std::initializer_list<std::string_view> parts);

}  // namespace ferrite::core
