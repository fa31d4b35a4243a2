// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The parts of ELF files that say how they are mapped and what they need; files that are damaged.
#include <elf.h>
#include <link.h>

#include <cstddef>
#include <cstring>

#include "core/support/files/elf_needs.h"
#include "core/support/files/elf_segments.h"
#include "tests/core/support/files/temporary_folder.h"

namespace ferrite::core {
namespace {

constexpr size_t header_bytes = sizeof(ElfW(Ehdr));

/// A shared library of these segments, whose offsets count from the start of `data`, which is at its end.
std::string library(std::vector<ElfW(Phdr)> segments, const std::string& data) {
  ElfW(Ehdr) header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = sizeof(void*) == 8 ? ELFCLASS64 : ELFCLASS32;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_type = ET_DYN;
  header.e_machine = EM_AARCH64;
  header.e_phoff = header_bytes;
  header.e_phnum = static_cast<uint16_t>(segments.size());
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
  for (auto& segment : segments) {
    segment.p_offset += header_bytes + segments.size() * sizeof segment;
    bytes.append(reinterpret_cast<const char*>(&segment), sizeof segment);
  }
  return bytes + data;
}
ElfW(Phdr) segment(uint32_t type, uint64_t offset, uint64_t bytes, uint32_t flags = PF_R) {
  ElfW(Phdr) made{};
  made.p_type = type;
  made.p_flags = flags;
  made.p_offset = offset;
  made.p_filesz = bytes;
  return made;
}
Result<ElfSegments> parse(std::string_view bytes) {
  return ElfSegments::parse(std::as_bytes(std::span(bytes)));
}

TEST(ElfFiles, SayHowTheyAreMapped) {
  const std::string loader = "/lib/ld.so";
  const auto plain = parse(library({segment(PT_INTERP, 0, loader.size())}, loader));
  ASSERT_TRUE(plain) << plain.error().message();
  EXPECT_EQ(plain->machine, EM_AARCH64);
  EXPECT_EQ(plain->interpreter, loader) << "no NUL ends it";
  EXPECT_TRUE(plain->executable_stack) << "as the loader does where nothing is said";
  EXPECT_FALSE(parse(library({segment(PT_GNU_STACK, 0, 0, PF_R | PF_W)}, ""))->executable_stack);
  EXPECT_TRUE(parse(library({segment(PT_GNU_STACK, 0, 0, PF_R | PF_W | PF_X)}, ""))->executable_stack);
  const std::string ended("/lib/ld.so\0behind", 17);
  EXPECT_EQ(parse(library({segment(PT_INTERP, 0, ended.size())}, ended))->interpreter, loader);
}

TEST(ElfFiles, ThatEndEarlyOrAreNoLibrariesAreRefused) {
  const std::string whole = library({segment(PT_LOAD, 0, 4)}, "data");
  ASSERT_TRUE(parse(whole));
  for (size_t size = 0; size < whole.size(); ++size) {
    const auto cut = parse(std::string_view(whole).substr(0, size));
    ASSERT_FALSE(cut) << size;
    EXPECT_EQ(cut.error().code, "FE-P40");
  }
  EXPECT_FALSE(parse(library({segment(PT_LOAD, UINT64_MAX / 2, UINT64_MAX)}, "data")));
  EXPECT_FALSE(parse(library({segment(PT_LOAD, 0, UINT64_MAX)}, "data")));
  const auto changed = [&](size_t at, auto value) {
    std::string bytes = whole;
    std::memcpy(bytes.data() + at, &value, sizeof value);
    return parse(bytes).has_value();
  };
  EXPECT_TRUE(changed(offsetof(ElfW(Ehdr), e_type), uint16_t{ET_DYN}));
  EXPECT_FALSE(changed(offsetof(ElfW(Ehdr), e_type), uint16_t{ET_EXEC}));
  EXPECT_FALSE(changed(offsetof(ElfW(Ehdr), e_phoff), UINT64_MAX));
  EXPECT_FALSE(changed(offsetof(ElfW(Ehdr), e_phnum), uint16_t{2}));
  EXPECT_FALSE(changed(EI_DATA, uint8_t{ELFDATA2MSB}));
  EXPECT_FALSE(changed(0, 'E'));
}

class ElfNeed : public TemporaryFolder {};

TEST_F(ElfNeed, IsReadFromTheDynamicSection) {
  const std::string names("\0liba.so\0libb.so\0$ORIGIN/old\0$ORIGIN/lib:/usr/lib", 50);
  const uint64_t base = 0x1000;
  const auto entries = [&](std::vector<std::pair<int64_t, uint64_t>> given) {
    std::string bytes;
    for (const auto& [tag, value] : given) {
      ElfW(Dyn) entry{};
      entry.d_tag = tag;
      entry.d_un.d_val = value;
      bytes.append(reinterpret_cast<const char*>(&entry), sizeof entry);
    }
    auto mapped = segment(PT_LOAD, 0, names.size());
    mapped.p_vaddr = base;
    return library({mapped, segment(PT_DYNAMIC, names.size(), bytes.size())}, names + bytes);
  };
  const auto parsed = [](std::string_view bytes) { return ElfNeeds::parse(std::as_bytes(std::span(bytes))); };
  const auto both = parsed(entries({{DT_NEEDED, 1},
                                    {DT_RPATH, 17},
                                    {DT_RUNPATH, 29},
                                    {DT_NEEDED, 9},
                                    {DT_STRTAB, base},
                                    {DT_NULL, 0},
                                    {DT_NEEDED, 2}}));
  EXPECT_EQ(both.libraries, (std::vector<std::string>{"liba.so", "libb.so"})) << "none behind the end mark";
  EXPECT_EQ(both.folders, "$ORIGIN/lib:/usr/lib");
  EXPECT_EQ(parsed(entries({{DT_RPATH, 17}, {DT_STRTAB, base}, {DT_NULL, 0}})).folders, "$ORIGIN/old");
  EXPECT_EQ(parsed(entries({{DT_RPATH, 17}, {DT_NULL, 0}})).folders, "") << "there are no names";
  EXPECT_EQ(parsed(entries({{DT_RPATH, UINT64_MAX}, {DT_STRTAB, base}, {DT_NULL, 0}})).folders, "");
}

TEST_F(ElfNeed, IsFoundWhereTheLoaderWouldFindIt) {
  fs::create_directory(at("lib"));
  for (const char* name : {"lib/liba.so", "liba.so", "libb.so"}) write(name, "");
  fs::create_directory(at("lib/libb.so"));
  const ElfNeeds needs{{"libb.so", "libnone.so", "liba.so"}, "/usr/lib:$ORIGIN/lib:${ORIGIN}"};
  EXPECT_EQ(needs.files_below_origin(folder_), (std::vector<std::string>{at("libb.so"), at("lib/liba.so")}));
}

}  // namespace
}  // namespace ferrite::core
