// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/support/files/elf_segments.h"

#include <elf.h>
#include <link.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace ferrite::core {
namespace {

using Header = ElfW(Ehdr);
using Segment = ElfW(Phdr);

constexpr unsigned char own_class = sizeof(void*) == 8 ? ELFCLASS64 : ELFCLASS32;
constexpr unsigned char own_order = std::endian::native == std::endian::little ? ELFDATA2LSB : ELFDATA2MSB;

bool within(std::span<const std::byte> bytes, uint64_t offset, uint64_t size) {
  return offset <= bytes.size() && size <= bytes.size() - offset;
}

Error cut_short(std::string_view what) {
  return error(FE_EINVALID, "FE-P40", "the file is damaged: {}; build or copy it again", what);
}

}  // namespace

Result<ElfSegments> ElfSegments::parse(std::span<const std::byte> bytes) {
  if (bytes.size() < SELFMAG || std::memcmp(bytes.data(), ELFMAG, SELFMAG) != 0)
    return error(FE_EINVALID, "FE-P40", "this is no ELF file; give a shared library");
  if (bytes.size() < sizeof(Header)) return cut_short("its header is cut short");
  Header header;
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.e_ident[EI_CLASS] != own_class || header.e_ident[EI_DATA] != own_order)
    return error(FE_EINVALID, "FE-P40",
                 "the library is for a machine of another word size or byte order; get a build for this one");
  if (header.e_type != ET_DYN)
    return error(FE_EINVALID, "FE-P40",
                 "the file is an ELF file, but no shared library; link it with -shared");
  if (!within(bytes, header.e_phoff, uint64_t{header.e_phnum} * sizeof(Segment)))
    return cut_short("its program headers are cut short");
  ElfSegments result;
  result.machine = header.e_machine;
  // Without the mark the loader gives the process an executable stack.
  result.executable_stack = true;
  for (unsigned k = 0; k < header.e_phnum; ++k) {
    Segment segment;
    std::memcpy(&segment, bytes.data() + header.e_phoff + k * sizeof segment, sizeof segment);
    if (!within(bytes, segment.p_offset, segment.p_filesz)) return cut_short("a segment lies outside of it");
    if (segment.p_type == PT_GNU_STACK) result.executable_stack = (segment.p_flags & PF_X) != 0;
    if (segment.p_type == PT_INTERP) {
      const auto* name = reinterpret_cast<const char*>(bytes.data() + segment.p_offset);
      result.interpreter.assign(name, strnlen(name, segment.p_filesz));
    }
  }
  return result;
}

}  // namespace ferrite::core
