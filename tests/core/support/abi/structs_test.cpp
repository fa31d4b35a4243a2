// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Structs and arrays of peers that know other sizes of them, and flat containers.
#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "core/support/abi/abi.h"
#include "core/support/abi/flat_container.h"
#include "ferrite/abi/kernel.h"

namespace ferrite::core {
namespace {

/// A struct of this side; older peers know it up to `first`.
struct Table {
  uint64_t size;
  uint64_t first;
  uint32_t second, third;
};

TEST(AbiStructs, OfASmallerPeerEndInZeros) {
  Table given{16, 7, 8, 9};
  Table got = abi::read(&given);
  EXPECT_EQ(got.size, sizeof(Table));
  EXPECT_EQ(got.first, 7u);
  EXPECT_EQ(got.second, 0u);
  given.size = 20;  // ends within a word, which may be half a pointer
  EXPECT_EQ(abi::read(&given).second, 0u);
  given.size = 1000;
  got = abi::read(&given);
  EXPECT_EQ(got.size, sizeof(Table));
  EXPECT_EQ(got.third, 9u);
  got = abi::read<Table>(nullptr);
  EXPECT_EQ(got.size, sizeof(Table));
  EXPECT_EQ(got.first, 0u);
}

TEST(AbiStructs, AreWrittenAsFarAsThePeerHasRoom) {
  const Table value{sizeof(Table), 7, 8, 9};
  Table out{16, 1, 2, 3};
  abi::write(&out, value);
  EXPECT_EQ(out.size, 16u);
  EXPECT_EQ(out.first, 7u);
  EXPECT_EQ(out.second, 2u) << "memory that is not the struct's";
  out.size = 8;
  abi::write(&out, Table{sizeof(Table), 4, 5, 6});
  EXPECT_EQ(out.first, 7u);
  abi::write<Table>(nullptr, value);
}

TEST(AbiArrays, AreReadByTheirStride) {
  struct Older {
    uint64_t size, first;
  };
  std::array<Older, 2> older{{{16, 5}, {16, 6}}};
  fe_array array = abi::array(older.data(), older.size());
  EXPECT_TRUE(abi::readable<Table>(array, sizeof(Older)));
  EXPECT_EQ(abi::element<Table>(array, 1).first, 6u);
  EXPECT_EQ(abi::element<Table>(array, 1).second, 0u);
  EXPECT_FALSE(abi::readable<Table>(array)) << "the stride is less than the struct needs";
  older[1].size = 24;
  EXPECT_FALSE(abi::readable<Table>(array, sizeof(Older))) << "the last struct ends behind the array";
  EXPECT_FALSE(abi::readable<uint64_t>({nullptr, 1, 8}));
  EXPECT_TRUE(abi::readable<uint64_t>({nullptr, 0, 0}));
  EXPECT_FALSE(abi::readable<uint64_t>({older.data(), uint64_t{1} << 32, 8}));
}

TEST(FlatContainers, HaveTheirSectionsAtMultiplesOfEightBytes) {
  FlatContainer container;
  container.add(FE_SECTION_PROVENANCE, false, std::vector<char>{'a', 'b', 'c'});
  container.add(FE_SECTION_INTS, true, std::vector<int64_t>{1, -2});
  const auto bytes = container.bytes(FE_FLAT_GRAPH, 5);
  fe_flat_header header;
  std::array<fe_flat_section, 2> sections;
  ASSERT_EQ(bytes.size(), sizeof header + sizeof sections + 8 + 16) << "three bytes take eight";
  std::memcpy(&header, bytes.data(), sizeof header);
  std::memcpy(sections.data(), bytes.data() + sizeof header, sizeof sections);
  EXPECT_EQ(header.magic, FE_FLAT_MAGIC);
  EXPECT_EQ(header.content, FE_FLAT_GRAPH);
  EXPECT_EQ(header.features, 5u);
  EXPECT_EQ(header.bytes, bytes.size());
  EXPECT_EQ(header.section_count, 2u);
  EXPECT_EQ(sections[0].kind, FE_SECTION_PROVENANCE);
  EXPECT_EQ(sections[0].count, 3u);
  EXPECT_EQ(std::memcmp(bytes.data() + sections[0].offset, "abc\0\0\0\0", 8), 0);
  EXPECT_EQ(sections[1].kind, FE_SECTION_INTS | FE_SECTION_MUST_UNDERSTAND);
  EXPECT_EQ(sections[1].stride, 8u);
  EXPECT_EQ(sections[1].offset % 8, 0u);
  int64_t second = 0;
  std::memcpy(&second, bytes.data() + sections[1].offset + 8, sizeof second);
  EXPECT_EQ(second, -2);
}

TEST(FlatContainers, AreNamedAfterTheirSemanticSections) {
  const auto entry = [](const auto& elements, const std::string& provenance) {
    FlatContainer container;
    container.add(FE_SECTION_INTS, true, elements);
    container.add(FE_SECTION_PROVENANCE, false, std::vector<char>(provenance.begin(), provenance.end()));
    return container.entry();
  };
  const std::vector<int64_t> numbers = {1, 2};
  EXPECT_EQ(entry(numbers, "here"), entry(numbers, "elsewhere"));
  EXPECT_NE(entry(numbers, ""), entry(std::vector<int64_t>{1, 3}, ""));
  EXPECT_NE(entry(numbers, ""), entry(std::vector<int32_t>{1, 0, 2, 0}, ""))
      << "the same bytes, other elements";
  EXPECT_EQ(entry(numbers, "").substr(0, 2), "k_");
}

}  // namespace
}  // namespace ferrite::core
