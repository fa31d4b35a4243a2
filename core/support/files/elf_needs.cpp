// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/support/files/elf_needs.h"

#include <elf.h>
#include <link.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string_view>

namespace ferrite::core {
namespace {

/// The bytes [offset, offset + size) of the file as a T, where they lie within it.
template <class T>
std::optional<T> read(std::span<const std::byte> bytes, uint64_t offset) {
  if (offset > bytes.size() || bytes.size() - offset < sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

template <class Visit>
void for_each_segment(std::span<const std::byte> bytes, Visit visit) {
  const auto header = read<ElfW(Ehdr)>(bytes, 0);
  for (unsigned k = 0; header && k < header->e_phnum; ++k)
    if (const auto segment = read<ElfW(Phdr)>(bytes, header->e_phoff + k * sizeof(ElfW(Phdr))))
      visit(*segment);
}

/// The dynamic section has addresses; the text of its names lies in a segment that is mapped from the file.
std::optional<uint64_t> offset_of(std::span<const std::byte> bytes, uint64_t address) {
  std::optional<uint64_t> found;
  for_each_segment(bytes, [&](const ElfW(Phdr) & segment) {
    if (segment.p_type == PT_LOAD && address >= segment.p_vaddr &&
        address - segment.p_vaddr < segment.p_filesz)
      found = segment.p_offset + (address - segment.p_vaddr);
  });
  return found;
}

}  // namespace

ElfNeeds ElfNeeds::parse(std::span<const std::byte> bytes) {
  std::vector<uint64_t> needed;  // offsets in the table of names, as the others
  std::optional<uint64_t> run_path, old_path, names;
  for_each_segment(bytes, [&](const ElfW(Phdr) & segment) {
    if (segment.p_type != PT_DYNAMIC) return;
    for (uint64_t at = 0; at < segment.p_filesz; at += sizeof(ElfW(Dyn))) {
      const auto entry = read<ElfW(Dyn)>(bytes, segment.p_offset + at);
      if (!entry || entry->d_tag == DT_NULL) return;
      if (entry->d_tag == DT_NEEDED) needed.push_back(entry->d_un.d_val);
      if (entry->d_tag == DT_RUNPATH) run_path = entry->d_un.d_val;
      if (entry->d_tag == DT_RPATH) old_path = entry->d_un.d_val;
      if (entry->d_tag == DT_STRTAB) names = offset_of(bytes, entry->d_un.d_ptr);
    }
  });
  const auto text = [&](uint64_t offset) {
    if (!names || *names > bytes.size() || offset >= bytes.size() - *names) return std::string();
    const auto* start = reinterpret_cast<const char*>(bytes.data() + *names + offset);
    return std::string(start, strnlen(start, bytes.size() - *names - offset));
  };
  ElfNeeds result;
  for (const auto offset : needed)
    if (auto name = text(offset); !name.empty()) result.libraries.push_back(std::move(name));
  if (!run_path) run_path = old_path;
  if (run_path) result.folders = text(*run_path);
  return result;
}

std::vector<std::string> ElfNeeds::files_below_origin(const std::string& folder) const {
  std::vector<std::string> files;
  for (const auto& library : libraries) {
    for (std::string_view rest = folders; !rest.empty();) {
      const auto colon = rest.find(':');
      auto path = rest.substr(0, colon);
      rest.remove_prefix(colon == rest.npos ? rest.size() : colon + 1);
      for (const std::string_view origin : {"$ORIGIN", "${ORIGIN}"}) {
        if (path != origin && !path.starts_with(std::string(origin) + '/')) continue;
        auto file = std::filesystem::path(folder + std::string(path.substr(origin.size()))) / library;
        std::error_code missing;
        if (std::filesystem::is_regular_file(file, missing)) {
          files.push_back(file.string());
          rest = {};  // the loader takes the first one
        }
      }
    }
  }
  return files;
}

}  // namespace ferrite::core
