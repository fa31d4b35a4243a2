// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/plugin/plugin_library.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <boost/dll/shared_library.hpp>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>
#include <system_error>
#include <vector>

#include "core/support/digest.h"
#include "core/support/files/elf_needs.h"
#include "core/support/files/elf_segments.h"
#include "core/support/files/file_descriptor.h"
#include "core/support/files/weights.h"
#include "runtime/plugin/library_pages.h"

namespace ferrite::core::plugin {
namespace {

Error unreadable(const std::string& path, int reason) {
  return at(path, error(FE_EINVALID, "FE-M14", "the library cannot be read: {}; check its permissions",
                        std::generic_category().message(reason)));
}

/// The hash of a file. Unless `copy` is -1, each byte is also written to it, so that the hash covers exactly
/// the copied bytes.
Result<std::string> hash_file(const std::string& path, int copy) {
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) return unreadable(path, errno);
  struct stat status{};
  // Reading a pipe would wait for its writer.
  if (fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return unreadable(path, EINVAL);
  Digest digest;
  std::vector<char> buffer(size_t{1} << 20);
  for (uint64_t done = 0;;) {
    const ssize_t count = read(file.get(), buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return unreadable(path, errno);
    if (count == 0) return digest.hex();
    const auto part = std::as_bytes(std::span(buffer.data(), static_cast<size_t>(count)));
    digest.add(part);
    if (copy >= 0 && !write_at(copy, part, done))
      return at(path, error(FE_ENOMEM, "FE-X36", "out of memory for a copy of the library; free memory"));
    done += part.size();
  }
}

#if defined(__x86_64__)
constexpr uint16_t this_machine = EM_X86_64;
#elif defined(__aarch64__)
constexpr uint16_t this_machine = EM_AARCH64;
#endif

/// Checks the ELF file before dlopen: the loader reports a library for another machine as missing, and a
/// truncated one kills the process.
Result<void> check_file(const std::string& path) {
  auto file = graph::MappedFile::open(path);
  if (!file)
    return at(path, error(FE_EINVALID, "FE-M14", "the library cannot be read: {}; check its permissions",
                          file.error().text));
  const auto bytes = (*file)->bytes();
  Elf64_Ehdr header;
  if (bytes.size() < sizeof header) return {};  // the loader reports a file this short properly
  std::memcpy(&header, bytes.data(), sizeof header);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return {};
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != this_machine)
    return at(path, error(FE_EINVALID, "FE-M16",
                          "the library is for another machine (ELF machine {}, this one has {}); get a build "
                          "for this platform",
                          header.e_machine, this_machine));
  if (auto segments = ElfSegments::parse(bytes); !segments) return at(path, std::move(segments.error()));
  return {};
}

constexpr auto load_mode = boost::dll::load_mode::rtld_now | boost::dll::load_mode::rtld_local;

/// Never dlclose: pointers to the plugin's tables and code stay valid.
void keep(const boost::dll::shared_library& library, std::vector<boost::dll::shared_library>& kept) {
  if (std::none_of(kept.begin(), kept.end(),
                   [&](const auto& other) { return other.native() == library.native(); }))
    kept.push_back(library);
}

Result<fe_plugin_entry_v0_fn> load(const std::string& file, const std::string& path,
                                   std::vector<boost::dll::shared_library>& kept) {
  boost::dll::fs::error_code failed;
  boost::dll::shared_library library(file, load_mode, failed);
  if (failed) {
    const char* reason = dlerror();
    return at(
        path,
        error(FE_EINVALID, "FE-P02",
              "the library does not load: {}; build or copy it again, or install what it names as missing",
              reason ? reason : failed.message()));
  }
  auto entry =
      library.has(FE_PLUGIN_ENTRY) ? &library.get<const fe_plugin_v0*(uint32_t)>(FE_PLUGIN_ENTRY) : nullptr;
  keep(library, kept);
  if (entry) return entry;
  return at(path,
            error(FE_EINVALID, "FE-P03", "it exports no '{}'; is it a Ferrite plugin of ABI version {}?",
                  FE_PLUGIN_ENTRY, FE_ABI_MAJOR));
}

/// Opens what a plugin needs and brings along. For a copy in memory the loader does not find it, since
/// $ORIGIN is the folder of the copy; it finds a library that is open already by its name. A
/// library that does not open here is reported when the plugin is loaded.
void load_needs(const std::string& copy, const std::string& path,
                std::vector<boost::dll::shared_library>& kept) {
  const auto file = graph::MappedFile::open(copy);
  if (!file) return;
  std::error_code failed_path;
  const auto folder = std::filesystem::absolute(path, failed_path).parent_path().string();
  for (const auto& needed : ElfNeeds::parse((*file)->bytes()).files_below_origin(folder)) {
    boost::dll::fs::error_code failed;
    boost::dll::shared_library library(needed, load_mode, failed);
    if (!failed) keep(library, kept);
  }
}

/// The libraries that this process has loaded; they stay for its lifetime.
struct Loaded {
  std::mutex mutex;
  std::vector<boost::dll::shared_library> libraries;
  std::map<std::string, fe_plugin_entry_v0_fn> locked;  // by hash
};

Loaded& loaded() {
  static auto& all = *new Loaded();
  return all;
}

Result<fe_plugin_entry_v0_fn> open_locked(const std::string& path, const std::string& sha256) {
  const auto name = std::filesystem::path(path).filename().string();
  FileDescriptor copy(memfd_create(name.substr(0, 200).c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!copy)
    return at(
        path,
        error(FE_ENOMEM, "FE-X36",
              "no memory file for a copy of the library: {}; free memory, or raise the limit of open files",
              std::generic_category().message(errno)));
  FE_TRY(const auto hash, hash_file(path, copy.get()));
  if (hash != sha256)
    return at(path,
              error(FE_EINVALID, "FE-M23",
                    "the library's SHA-256 is {}, the lock says {}; restore the file, or run `ferrite plugin "
                    "lock` if the change is yours",
                    hash, sha256));
  if (fcntl(copy.get(), F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) != 0)
    return at(path, error(FE_EINTERNAL, "FE-P02", "its copy cannot be sealed: {}",
                          std::generic_category().message(errno)));
  auto& all = loaded();
  const std::lock_guard lock(all.mutex);
  if (auto known = all.locked.find(sha256); known != all.locked.end()) return known->second;
  // The loader identifies libraries by name, here /proc/self/fd/NUMBER, so the descriptor must never be
  // reused.
  const auto file = fmt::format("/proc/self/fd/{}", copy.release());
  load_needs(file, path, all.libraries);
  FE_TRY(auto entry, load(file, path, all.libraries));
  all.locked.emplace(sha256, entry);
  return entry;
}

}  // namespace

Result<fe_plugin_entry_v0_fn> open_library(const std::string& path, const std::string& sha256) {
  std::error_code missing;
  // Loading a pipe would wait for its writer.
  if (!std::filesystem::is_regular_file(path, missing))
    return at(path, error(FE_EINVALID, "FE-P01",
                          "there is no such library; build it, or correct 'library' or the search path"));
  FE_CHECK(check_file(path));
  const NewLibraries noted;
  if (!sha256.empty()) return open_locked(path, sha256);
  auto& all = loaded();
  const std::lock_guard lock(all.mutex);
  return load(path, path, all.libraries);
}

Result<std::string> hash_library(const std::string& path) { return hash_file(path, -1); }

}  // namespace ferrite::core::plugin
