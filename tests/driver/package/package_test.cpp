// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The file of a package: what was written is read again, and one that differs in any byte is refused.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "runtime/package/container.h"

namespace ferrite::core::package {
namespace {

using Bytes = std::span<const std::byte>;

Bytes of(std::string_view text) { return std::as_bytes(std::span(text)); }
std::string text_of(Bytes bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

class PackageFile : public testing::Test {
 protected:
  void SetUp() override {
    path_ = std::filesystem::temp_directory_path() / ("ferrite-package-test-" + std::to_string(::getpid()));
    const std::vector<Section> sections = {{Kind::description, all_targets, Codec::zstd, {of(program_)}},
                                           {Kind::program, 0, Codec::zstd, {of("a"), {}, of(program_)}},
                                           {Kind::program, 1, Codec::zstd, {of("another target's")}},
                                           {Kind::code, 0, Codec::stored, {of("code")}},
                                           {Kind::weights, all_targets, Codec::stored, {}}};
    const auto written = write(path_.string(), sections);
    ASSERT_TRUE(written) << written.error().message();
    std::ifstream file(path_, std::ios::binary);
    std::ostringstream contents;
    contents << file.rdbuf();
    whole_ = std::move(contents).str();
    EXPECT_EQ(*written, whole_.size());
  }
  void TearDown() override { std::filesystem::remove(path_); }

  Result<Container> opened(const std::string& contents) const {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << contents;
    auto file = graph::MappedFile::open(path_.string());
    if (!file) return std::move(file.error());
    return Container::open(std::move(*file));
  }
  std::string code_of(const std::string& contents) const {
    const auto container = opened(contents);
    return container ? "" : container.error().code;
  }

  const std::string program_ = std::string(500, 'x');
  std::filesystem::path path_;
  std::string whole_;
};

TEST_F(PackageFile, IsReadAgain) {
  const auto container = opened(whole_);
  ASSERT_TRUE(container) << container.error().message();
  EXPECT_EQ(text_of(*container->read(Kind::program, 0)), "a" + program_);
  EXPECT_EQ(text_of(*container->read(Kind::program, 1)), "another target's");
  EXPECT_EQ(text_of(*container->in_place(Kind::code, 0)), "code");
  EXPECT_EQ(text_of(*container->read(Kind::code, 0)), "code");
  EXPECT_EQ(container->in_place(Kind::weights, all_targets)->size(), 0u);
  EXPECT_EQ(container->read(Kind::graph, all_targets).error().code, "FE-K52");
  EXPECT_EQ(container->in_place(Kind::program, 0).error().code, "FE-K52");
  EXPECT_EQ(container->read(Kind::code, 1).error().code, "FE-K52");
}

TEST_F(PackageFile, NoByteMayDiffer) {
  for (size_t k = 0; k < whole_.size(); ++k)
    for (const char bit : {'\x01', '\x80'}) {
      std::string changed = whole_;
      changed[k] = static_cast<char>(changed[k] ^ bit);
      const auto code = code_of(changed);
      EXPECT_EQ(code, k < 12 ? "FE-K50" : "FE-K51") << "byte " << k;
    }
}

TEST_F(PackageFile, WhatIsReadIsComparedAlone) {
  const auto opened_to_read = [&](const std::string& contents) {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << contents;
    auto file = graph::MappedFile::open(path_.string());
    EXPECT_TRUE(file);
    return Container::open(std::move(*file), Check::what_is_read);
  };
  std::string changed = whole_;
  changed[changed.find("code")] = 'C';
  const auto container = opened_to_read(changed);
  ASSERT_TRUE(container) << container.error().message();
  EXPECT_EQ(text_of(*container->read(Kind::program, 1)), "another target's");
  EXPECT_EQ(container->read(Kind::code, 0).error().code, "FE-K51");
  EXPECT_EQ(container->in_place(Kind::code, 0).error().code, "FE-K51");
  changed = whole_;
  changed[100] = static_cast<char>(changed[100] ^ 1);  // the table is compared always
  EXPECT_EQ(opened_to_read(changed).error().code, "FE-K51");
}

TEST_F(PackageFile, SectionsAreTold) {
  const auto container = opened(whole_);
  ASSERT_TRUE(container) << container.error().message();
  EXPECT_TRUE(container->has(Kind::program, 1));
  EXPECT_FALSE(container->has(Kind::code, 1));
  EXPECT_EQ(*container->size(Kind::program, 0), 501u);
  EXPECT_EQ(container->size(Kind::code, 1).error().code, "FE-K52");
}

TEST_F(PackageFile, NoByteMayLack) {
  for (size_t bytes = 0; bytes < whole_.size(); ++bytes)
    EXPECT_EQ(code_of(whole_.substr(0, bytes)), bytes < 88 ? "FE-K50" : "FE-K51") << bytes << " bytes";
  EXPECT_EQ(code_of(whole_ + '\0'), "FE-K51");
}

}  // namespace
}  // namespace ferrite::core::package
