// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/cache/folder.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace ferrite::core::cache {
namespace fs = std::filesystem;

std::string user_folder(std::string_view name) {
  // Not where another user's rights are at stake: the environment is the caller's.
  const char* cache = secure_getenv("XDG_CACHE_HOME");
  if (cache && *cache == '/') return fmt::format("{}/ferrite/{}", cache, name);
  const char* home = secure_getenv("HOME");
  return home && *home == '/' ? fmt::format("{}/.cache/ferrite/{}", home, name) : std::string();
}

std::string distrusted(const std::string& folder) {
  struct stat about{};
  if (stat(folder.c_str(), &about) != 0) return errno == ENOENT ? std::string() : std::strerror(errno);
  if (!S_ISDIR(about.st_mode)) return "it is no folder";
  if (about.st_uid != geteuid()) return "it belongs to another user";
  if (about.st_mode & (S_IWGRP | S_IWOTH)) return "others may write to it";
  return {};
}

std::string write_file(const std::string& folder, const std::string& name, std::string_view contents) {
  static std::atomic<unsigned> written{0};
  std::error_code failed;
  if (fs::create_directories(folder, failed)) fs::permissions(folder, fs::perms::owner_all, failed);
  const fs::path path = fs::path(folder) / name;
  const fs::path part = fmt::format("{}.{}.{}", path.string(), getpid(), written++);
  std::ofstream file(part, std::ios::binary | std::ios::trunc);
  file.write(contents.data(), static_cast<std::streamsize>(contents.size()));
  file.close();
  std::string fault;
  if (!file) {
    fault = "the file cannot be written: is the folder read-only, or the disk full?";
  } else {
    fs::rename(part, path, failed);
    if (failed) fault = failed.message();
  }
  if (!fault.empty()) fs::remove(part, failed);
  return fault;
}

Result<std::vector<File>> list(const std::string& folder, std::string_view suffix) {
  std::vector<File> files;
  std::error_code failed;
  if (!fs::exists(folder, failed)) return files;
  const auto now = fs::file_time_type::clock::now();
  fs::directory_iterator entry(folder, failed);
  for (; !failed && entry != fs::directory_iterator(); entry.increment(failed)) {
    File file{entry->path().filename().string(), 0, 0};
    if (!file.name.ends_with(suffix)) continue;
    std::error_code gone;  // another process may clear the folder meanwhile
    file.bytes = entry->file_size(gone);
    if (gone) continue;
    const auto used = entry->last_write_time(gone);
    if (gone) continue;
    file.days = std::chrono::duration_cast<std::chrono::hours>(now - used).count() / 24;
    files.push_back(std::move(file));
  }
  if (failed) return at(folder, error(FE_EINVALID, "FE-K30", "{}", failed.message()));
  std::ranges::sort(files, {}, &File::name);
  return files;
}

}  // namespace ferrite::core::cache
