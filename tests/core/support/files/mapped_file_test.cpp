// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Files in memory: mapped weights, and pages that are given back.
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include "core/support/files/weights.h"
#include "core/support/host_memory.h"
#include "tests/core/support/files/temporary_folder.h"

namespace ferrite::core {
namespace {

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
std::string fault(const auto& result) {
  return result ? "no error" : result.error().code + " " + result.error().text;
}

class Weights : public TemporaryFolder {};

TEST_F(Weights, InMemoryAreCopiesThatEqualNoOthers) {
  std::string text = "in memory";
  const auto copy = graph::MappedFile::copy_of(std::as_bytes(std::span(text)));
  const auto other = graph::MappedFile::copy_of(std::as_bytes(std::span(text)));
  ASSERT_TRUE(copy && other);
  text.assign(text.size(), '?');
  EXPECT_EQ(text_of((*copy)->bytes()), "in memory");
  EXPECT_NE((*copy)->identity(), (*other)->identity());
  write("empty", "");
  const auto file = graph::MappedFile::open(at("empty")), again = graph::MappedFile::open(at("empty"));
  ASSERT_TRUE(file && again);
  EXPECT_TRUE((*file)->bytes().empty());
  EXPECT_EQ((*file)->identity(), (*again)->identity());
}

TEST_F(Weights, ThatAreNoRegularFilesAreRefused) {
  ASSERT_EQ(mkfifo(at("pipe").c_str(), 0600), 0);
  EXPECT_EQ(fault(graph::MappedFile::open(at("pipe"))), "FE-G40 it is no regular file");
  EXPECT_EQ(fault(graph::MappedFile::open(folder_)), "FE-G40 it is a folder");
  const auto missing = graph::MappedFile::open(at("none"));
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().where, at("none"));
}

TEST_F(Weights, AreRangesOfAFile) {
  graph::WeightStore store(folder_);
  EXPECT_EQ(fault(store.bytes("w", 0, 1)).substr(0, 6), "FE-G40");
  write("w", "12345678");
  const auto part = store.bytes("w", 2, 3), end = store.bytes("w", 8, 0);
  ASSERT_TRUE(part && end) << "a file that was missing before is looked for again";
  EXPECT_EQ(text_of(*part), "345");
  EXPECT_TRUE(end->empty());
  for (const auto& [offset, bytes] :
       {std::pair<uint64_t, uint64_t>{8, 1}, {0, 9}, {UINT64_MAX, 2}, {1, UINT64_MAX}})
    EXPECT_EQ(fault(store.bytes("w", offset, bytes)).substr(0, 6), "FE-G41") << offset;
  const auto first = store.identity("w", 0, 4), second = store.identity(at("w"), 4, 4);
  ASSERT_TRUE(first && second);
  EXPECT_NE(*first, *second);
  EXPECT_EQ(first->inode, second->inode) << "an absolute path is the same file";
}

TEST(ReleasedPages, AreTheWholeOnes) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE)), bytes = 4 * page;
  void* const mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(mapped, MAP_FAILED);
  auto* const data = static_cast<char*>(mapped);
  std::memset(data, 1, bytes);
  release_pages(data + 1, static_cast<int64_t>(page - 1));
  EXPECT_EQ(std::string_view(data, bytes), std::string(bytes, 1)) << "no page lies in the range as a whole";
  release_pages(data + 1, static_cast<int64_t>(bytes - 2));
  EXPECT_EQ(std::string_view(data, bytes),
            std::string(page, 1) + std::string(2 * page, 0) + std::string(page, 1));
  munmap(mapped, bytes);
}

}  // namespace
}  // namespace ferrite::core
