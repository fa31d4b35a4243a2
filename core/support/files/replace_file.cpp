// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/support/files/replace_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <filesystem>

#include <fmt/format.h>

#include "core/support/files/file_descriptor.h"
#include "core/support/files/file_fault.h"

namespace ferrite::core {

std::string replace_file(const std::string& given, std::span<const std::span<const std::byte>> chunks,
                         Links links) {
  namespace fs = std::filesystem;
  static std::atomic<unsigned> replaced{0};
  std::error_code failed;
  const bool replaced_link = links == Links::replaced && fs::is_symlink(given, failed);
  if (const auto there = fs::status(given, failed);
      !replaced_link && fs::exists(there) && !fs::is_regular_file(there))
    return "the existing path is no regular file";
  // A link is kept: follow it and write its target, even if the target does not exist yet.
  std::string path = given;
  constexpr int most_links = 40;  // Linux resolves at most 40 links
  for (int followed = 0; !replaced_link && fs::is_symlink(path, failed); ++followed) {
    if (followed == most_links) return "its links lead nowhere";
    path = (fs::path(path).parent_path() / fs::read_symlink(path, failed)).string();
  }
  std::string part, fault;
  {
    // Concurrent writers never share a temporary file: the name is unique per process and call, and a file
    // that an earlier process of the same number left, or a link that somebody else put there, is not used.
    int opened = -1;
    do {
      part = fmt::format("{}.{}.{}", path, getpid(), replaced++);
      opened =
          open(part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR | S_IRGRP | S_IROTH);
    } while (opened < 0 && errno == EEXIST);
    const FileDescriptor file(opened);
    bool whole = static_cast<bool>(file);
    uint64_t end = 0;
    for (const auto chunk : chunks) {
      whole = whole && write_at(file.get(), chunk, end);
      end += chunk.size();
    }
    if (!whole) fault = file_fault(path, errno);
  }
  if (fault.empty()) {
    fs::rename(part, path, failed);
    if (failed) fault = file_fault(path, failed.value());
  }
  if (!fault.empty()) fs::remove(part, failed);
  return fault;
}

/// The form is FILE.PROCESS.NUMBER: strip the two numbers, then compare the suffix.
bool is_unfinished(std::string_view name, std::string_view suffix) {
  for (int number = 0; number < 2; ++number) {
    const size_t digits = name.size() - (name.find_last_not_of("0123456789") + 1);
    if (digits == 0 || digits >= name.size() || name[name.size() - digits - 1] != '.') return false;
    name.remove_suffix(digits + 1);
  }
  return name.ends_with(suffix);
}

}  // namespace ferrite::core
