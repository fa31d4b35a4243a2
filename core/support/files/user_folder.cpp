// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/support/files/user_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <functional>
#include <mutex>
#include <set>
#include <span>

#include "core/support/files/file_descriptor.h"
#include "core/support/files/replace_file.h"

namespace ferrite::core::cache {
namespace fs = std::filesystem;

namespace {

/// Why another user may have written the contents of a file or folder; empty if only this user can.
std::string foreign(const struct stat& about) {
  if (about.st_uid != geteuid()) return "it belongs to another user";
  if (about.st_mode & (S_IWGRP | S_IWOTH)) return "others may write to it";
  return {};
}

/// Seconds since the file was created (statx birth time). Unlike the modification time, use does not change
/// it.
std::optional<int64_t> age_of(const fs::path& path) {
  struct statx about{};
  if (statx(AT_FDCWD, path.c_str(), AT_SYMLINK_NOFOLLOW, STATX_BTIME, &about) != 0 ||
      !(about.stx_mask & STATX_BTIME))
    return std::nullopt;
  return time(nullptr) - about.stx_btime.tv_sec;
}

/// The files whose names satisfy `wanted`, sorted by name.
Result<std::vector<File>> files_of(const std::string& folder,
                                   const std::function<bool(std::string_view)>& wanted) {
  std::vector<File> files;
  std::error_code failed;
  const auto now = fs::file_time_type::clock::now();
  fs::directory_iterator entry(folder, failed);
  for (; !failed && entry != fs::directory_iterator(); entry.increment(failed)) {
    File file;
    file.name = entry->path().filename().string();
    if (!wanted(file.name)) continue;
    std::error_code gone;  // another process may clear the folder meanwhile
    const auto about = entry->symlink_status(gone);
    if (gone) continue;
    if (!fs::is_regular_file(about)) {
      files.push_back(std::move(file));
      continue;
    }
    file.bytes = entry->file_size(gone);
    if (gone) continue;
    const auto used = entry->last_write_time(gone);
    if (gone) continue;
    file.unused = std::chrono::duration_cast<std::chrono::seconds>(now - used).count();
    file.age = age_of(entry->path());
    files.push_back(std::move(file));
  }
  if (failed)
    return at(folder, error(FE_EINVALID, "FE-K30",
                            "{}; correct its path or permissions, or name another folder with --cache",
                            failed.message()));
  std::ranges::sort(files, {}, &File::name);
  return files;
}

/// Whether this is the first write of such a file to the folder. A process lists a folder once, since a large
/// one takes a while.
bool is_first_write(const std::string& folder, const std::string& suffix) {
  static std::mutex mutex;
  static std::set<std::pair<std::string, std::string>> written;
  std::lock_guard lock(mutex);
  return written.emplace(folder, suffix).second;
}

}  // namespace

std::string user_folder(std::string_view name) {
  // secure_getenv ignores the environment in set-user-ID programs: there the caller controls it.
  const char* cache = secure_getenv("XDG_CACHE_HOME");
  if (cache && *cache == '/') return fmt::format("{}/ferrite/{}", cache, name);
  const char* home = secure_getenv("HOME");
  return home && *home == '/' ? fmt::format("{}/.cache/ferrite/{}", home, name) : std::string();
}

std::string distrusted(const std::string& folder) {
  struct stat about{};
  if (stat(folder.c_str(), &about) != 0) return errno == ENOENT ? std::string() : std::strerror(errno);
  if (!S_ISDIR(about.st_mode)) return "it is no folder";
  return foreign(about);
}

std::optional<std::string> read_file(const std::string& path, uint64_t most_bytes, std::string& fault) {
  fault.clear();
  const auto refuse = [&](std::string reason) {
    fault = std::move(reason);
    return std::nullopt;
  };
  // O_NONBLOCK: if the path is a pipe, do not wait for a writer. O_NOFOLLOW: this module writes no links, so
  // a link is not ours.
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW));
  if (!file)
    return errno == ENOENT ? std::nullopt : refuse(errno == ELOOP ? "it is a link" : std::strerror(errno));
  struct stat about{};
  if (fstat(file.get(), &about) != 0) return refuse(std::strerror(errno));
  if (!S_ISREG(about.st_mode)) return refuse("it is no regular file");
  // Check each file too: others may have been able to write to the folder earlier.
  if (auto why = foreign(about); !why.empty()) return refuse(std::move(why));
  if (static_cast<uint64_t>(about.st_size) > most_bytes) return refuse("it is too large");
  std::string contents(static_cast<size_t>(about.st_size), '\0');
  if (!read_at(file.get(), std::as_writable_bytes(std::span(contents)))) return refuse("it cannot be read");
  return contents;
}

std::string write_file(const std::string& folder, const std::string& name, std::string_view contents) {
  std::error_code failed;
  if (fs::create_directories(folder, failed)) fs::permissions(folder, fs::perms::owner_all, failed);
  // Without an extension, files of others could look like temporary files of this one.
  const std::string suffix = fs::path(name).extension().string();
  if (!suffix.empty() && is_first_write(folder, suffix))
    if (const auto abandoned = list_abandoned(folder, suffix))
      for (const auto& file : *abandoned) fs::remove(fs::path(folder) / file.name, failed);
  const std::array chunks{std::as_bytes(std::span(contents))};
  return replace_file((fs::path(folder) / name).string(), chunks, Links::replaced);
}

Result<std::vector<File>> list(const std::string& folder, std::string_view suffix) {
  return files_of(folder, [&](std::string_view name) { return name.ends_with(suffix); });
}

Result<std::vector<File>> list_abandoned(const std::string& folder, std::string_view suffix) {
  constexpr int64_t hour = 3600;
  FE_TRY(auto files, files_of(folder, [&](std::string_view name) { return is_unfinished(name, suffix); }));
  std::erase_if(files, [](const File& file) { return file.unused < hour; });
  return files;
}

}  // namespace ferrite::core::cache
