// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tools/plugin_check/harness/elf.h"

#include <elf.h>
#include <link.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "core/support/files/elf_segments.h"
#include "core/support/files/weights.h"

namespace ferrite::core::plugin_check {
namespace {

using Header = ElfW(Ehdr);
using Section = ElfW(Shdr);
using Symbol = ElfW(Sym);
using Dynamic = ElfW(Dyn);

Error damaged(std::string_view what) {
  return error(FE_EINVALID, "FE-P40", "the file is damaged: {}; build or copy it again", what);
}

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  Result<ElfLibrary> run() {
    FE_TRY(auto segments, ElfSegments::parse(bytes_));
    library_.machine = segments.machine;
    library_.executable_stack = segments.executable_stack;
    library_.interpreter = std::move(segments.interpreter);
    const auto header = item<Header>(0);
    FE_CHECK(sections(*header));
    std::sort(library_.exported.begin(), library_.exported.end());
    return std::move(library_);
  }

 private:
  template <class T>
  std::optional<T> item(uint64_t offset) const {
    if (offset > bytes_.size() || bytes_.size() - offset < sizeof(T)) return std::nullopt;
    T value;
    std::memcpy(&value, bytes_.data() + offset, sizeof(T));
    return value;
  }

  std::optional<std::span<const std::byte>> range(uint64_t offset, uint64_t size) const {
    if (offset > bytes_.size() || size > bytes_.size() - offset) return std::nullopt;
    return bytes_.subspan(static_cast<size_t>(offset), static_cast<size_t>(size));
  }

  /// The NUL-terminated string at `offset` of a table; none where the table ends before the string does.
  static std::optional<std::string> string(std::span<const std::byte> table, uint64_t offset) {
    if (offset >= table.size()) return std::nullopt;
    const auto rest = table.subspan(static_cast<size_t>(offset));
    const auto end = std::find(rest.begin(), rest.end(), std::byte{0});
    if (end == rest.end()) return std::nullopt;
    return std::string(reinterpret_cast<const char*>(rest.data()), static_cast<size_t>(end - rest.begin()));
  }

  Result<void> sections(const Header& header) {
    bool symbols = false, dynamic = false;
    for (unsigned k = 0; k < header.e_shnum; ++k) {
      const auto section = item<Section>(header.e_shoff + uint64_t{k} * sizeof(Section));
      if (!section) return damaged("its section headers are cut short");
      if (section->sh_type != SHT_DYNSYM && section->sh_type != SHT_DYNAMIC) continue;
      const auto content = range(section->sh_offset, section->sh_size);
      const auto link = section->sh_link < header.e_shnum
                            ? item<Section>(header.e_shoff + uint64_t{section->sh_link} * sizeof(Section))
                            : std::nullopt;
      const auto names = link ? range(link->sh_offset, link->sh_size) : std::nullopt;
      if (!content || !names) return damaged("a section lies outside of it");
      if (section->sh_type == SHT_DYNSYM) {
        symbols = true;
        FE_CHECK(symbol_table(*content, *names));
      } else {
        dynamic = true;
        FE_CHECK(dynamic_table(*content, *names));
      }
    }
    if (!symbols || !dynamic) return damaged("it has no section of dynamic symbols, or none for the loader");
    return {};
  }

  Result<void> symbol_table(std::span<const std::byte> content, std::span<const std::byte> names) {
    for (size_t at = 0; at + sizeof(Symbol) <= content.size(); at += sizeof(Symbol)) {
      Symbol symbol;
      std::memcpy(&symbol, content.data() + at, sizeof symbol);
      const unsigned binding = symbol.st_info >> 4, visibility = symbol.st_other & 3u;
      // An absolute symbol is the name of a version.
      if (symbol.st_shndx == SHN_UNDEF || symbol.st_shndx == SHN_ABS || binding == STB_LOCAL ||
          visibility == STV_HIDDEN || visibility == STV_INTERNAL)
        continue;
      auto name = string(names, symbol.st_name);
      if (!name) return damaged("the name of a symbol lies outside of its table");
      library_.exported.push_back(std::move(*name));
    }
    return {};
  }

  Result<void> dynamic_table(std::span<const std::byte> content, std::span<const std::byte> names) {
    for (size_t at = 0; at + sizeof(Dynamic) <= content.size(); at += sizeof(Dynamic)) {
      Dynamic entry;
      std::memcpy(&entry, content.data() + at, sizeof entry);
      if (entry.d_tag == DT_NULL) break;
      if (entry.d_tag == DT_TEXTREL || (entry.d_tag == DT_FLAGS && (entry.d_un.d_val & DF_TEXTREL) != 0))
        library_.text_relocations = true;
      if (entry.d_tag != DT_NEEDED) continue;
      auto name = string(names, entry.d_un.d_val);
      if (!name) return damaged("the name of a needed library lies outside of its table");
      library_.needed.push_back(std::move(*name));
    }
    return {};
  }

  std::span<const std::byte> bytes_;
  ElfLibrary library_;
};

}  // namespace

Result<ElfLibrary> ElfLibrary::parse(std::span<const std::byte> bytes) { return Reader(bytes).run(); }

Result<ElfLibrary> ElfLibrary::read(const std::string& path) {
  auto file = graph::MappedFile::open(path);
  if (!file)
    return at(path, error(FE_EINVALID, "FE-P40", "the library cannot be read: {}", file.error().text));
  auto library = parse((*file)->bytes());
  if (!library) return at(path, std::move(library.error()));
  return library;
}

std::string machine_name(uint16_t machine) {
  switch (machine) {
    case EM_X86_64: return "x86-64";
    case EM_AARCH64: return "aarch64";
    case EM_RISCV: return "riscv";
    case EM_386: return "x86";
    case EM_ARM: return "arm";
    default: return fmt::format("machine {}", machine);
  }
}

}  // namespace ferrite::core::plugin_check
