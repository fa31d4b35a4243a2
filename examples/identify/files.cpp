// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "identify/files.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string_view>

namespace identify {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view white_space = " \t\n\r\v\f";

std::string read_block(std::ifstream& file, int64_t offset, int64_t count) {
  std::string bytes(static_cast<size_t>(count), '\0');
  if (!file.seekg(offset) || !file.read(bytes.data(), count)) throw std::runtime_error("cannot be read");
  return bytes;
}

Features without_model(std::string label) { return {{}, std::move(label)}; }
Features text_or_unknown(const std::string& bytes) {
  return without_model(is_utf8(bytes) ? "txt" : "unknown");
}

}  // namespace

bool is_utf8(const std::string& bytes) {
  for (size_t k = 0; k < bytes.size();) {
    const auto lead = static_cast<unsigned char>(bytes[k++]);
    if (lead < 0x80) continue;
    const int tail = lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : 1;
    if (lead < 0xc2 || lead > 0xf4) return false;
    uint32_t code = lead & (0x3fu >> tail);
    for (int t = 0; t < tail; ++t, ++k) {
      if (k == bytes.size() || (static_cast<unsigned char>(bytes[k]) & 0xc0) != 0x80) return false;
      code = code << 6 | (static_cast<unsigned char>(bytes[k]) & 0x3fu);
    }
    if (tail == 2 && (code < 0x800 || (code >= 0xd800 && code < 0xe000))) return false;
    if (tail == 3 && (code < 0x10000 || code > 0x10ffff)) return false;
  }
  return true;
}

Features read_features(const std::string& path, const FeatureSizes& sizes) {
  std::error_code failed;
  const auto status = fs::status(path, failed);
  if (!fs::exists(status)) throw std::runtime_error(failed ? failed.message() : "no such file");
  if (fs::is_directory(status)) return without_model("directory");
  if (!fs::is_regular_file(status)) return without_model("unknown");
  const auto size = static_cast<int64_t>(fs::file_size(path));
  if (size == 0) return without_model("empty");
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error(std::strerror(errno));
  if (size < sizes.least_file) return text_or_unknown(read_block(file, 0, size));

  const int64_t count = std::min(sizes.block, size);
  const auto first = read_block(file, 0, count), last = read_block(file, size - count, count);
  // As in Magika: strip only the outer end of each block, even if the blocks of a small file overlap.
  const auto start = std::min(first.find_first_not_of(white_space), first.size());
  const auto stop = last.find_last_not_of(white_space) + 1;  // 0 if the block is all white space
  const auto beginning = std::string_view(first).substr(start, static_cast<size_t>(sizes.beginning));
  const auto from = stop - std::min(stop, static_cast<size_t>(sizes.end));
  const auto end = std::string_view(last).substr(from, stop - from);
  if (static_cast<int64_t>(beginning.size()) < sizes.least_file) return text_or_unknown(first);

  Features features;
  features.tokens.assign(static_cast<size_t>(sizes.beginning + sizes.end), sizes.padding_token);
  auto token = [](char byte) { return static_cast<int32_t>(static_cast<unsigned char>(byte)); };
  std::transform(beginning.begin(), beginning.end(), features.tokens.begin(), token);
  std::transform(end.begin(), end.end(), features.tokens.end() - static_cast<ptrdiff_t>(end.size()), token);
  return features;
}

}  // namespace identify
