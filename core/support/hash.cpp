// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/support/hash.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <fstream>
#include <sstream>

namespace ferrite::core {

std::string hash128(std::string_view bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

std::string file_hash128(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream contents;
  contents << file.rdbuf();
  return file ? hash128(contents.view()) : std::string();
}

std::string hash128(std::initializer_list<std::string_view> parts) {
  std::string all;
  for (const auto part : parts) all += fmt::format("{}:{};", part.size(), part);
  return hash128(all);
}

}  // namespace ferrite::core
