// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/support/hash.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <fstream>

namespace ferrite::core {

std::string hash128(std::string_view bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

std::string file_hash128(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string contents;
  char block[1 << 16];
  while (file.read(block, sizeof block) || file.gcount() > 0)
    contents.append(block, static_cast<size_t>(file.gcount()));
  // A failed read, as that of a folder, is told from the end of the file.
  return file.eof() && !file.bad() ? hash128(contents) : std::string();
}

std::string hash128(std::initializer_list<std::string_view> parts) {
  std::string all;
  for (const auto part : parts) all += fmt::format("{}:{};", part.size(), part);
  return hash128(all);
}

}  // namespace ferrite::core
