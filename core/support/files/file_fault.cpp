// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/support/files/file_fault.h"

#include <cerrno>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>

namespace ferrite::core {
namespace {

/// The first folder of the path that does not exist or is no folder; empty if all exist.
std::string lacking_folder(const std::filesystem::path& path) {
  std::filesystem::path folder;
  std::error_code failed;
  for (const auto& part : path.parent_path())
    if (folder /= part; !std::filesystem::is_directory(folder, failed)) return folder.string();
  return {};
}

}  // namespace

std::string file_fault(const std::string& path, int number) {
  const auto folder = number == ENOENT || number == ENOTDIR ? lacking_folder(path) : std::string();
  switch (number) {
    case ENOENT:
      return folder.empty() ? "there is no such file or folder; correct the path"
                            : fmt::format("there is no folder '{}'; make it, or correct the path", folder);
    case ENOTDIR: return fmt::format("'{}' is no folder; correct the path", folder.empty() ? path : folder);
    case EEXIST: return "a file of this name is there; remove it, or give another name";
    case EISDIR: return "this is a folder; give the name of a file";
    case EACCES:
    case EPERM:
      return "permission denied; correct the rights of the file or its folder, or give another path";
    case EROFS: return "the file system is read-only; give another path";
    case ENOSPC:
    case EDQUOT: return "no space is left on the disk; make room, or give another path";
    case EFBIG: return "files may not be so large here; raise the limit (ulimit -f), or give another path";
    case ENAMETOOLONG: return "the name is too long; give a shorter one";
    case 0: return "the system gives no reason; check the path, its permissions and the free space";
    default:
      return fmt::format("{}; check the path, its permissions and the free space",
                         std::generic_category().message(number));
  }
}

}  // namespace ferrite::core
