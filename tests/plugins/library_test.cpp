// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Libraries that a lock names: only they are loaded, and what is written to their files makes no difference
// any more.
#include "runtime/plugin/plugin_library.h"

#include <elf.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "core/support/abi/abi.h"
#include "driver/config/lock.h"
#include "plugin_support.h"

namespace ferrite::core::plugin::test {
namespace {

namespace fs = std::filesystem;

/// A copy of a test plugin that may be written to.
class LockedLibrary : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "ferrite-lock-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    library_ = (folder_ / "test.so").string();
    fs::copy_file(library_of("pure_c"), library_);
    auto hash = hash_library(library_);
    ASSERT_TRUE(hash) << hash.error().message();
    hash_ = *hash;
  }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path folder_;
  std::string library_, hash_;
};

TEST_F(LockedLibrary, IsLoadedOnceAsItIs) {
  auto first = open_library(library_, hash_);
  ASSERT_TRUE(first) << first.error().message();
  auto second = open_library(library_, hash_);
  ASSERT_TRUE(second);
  EXPECT_EQ(*first, *second);
  // Written over in place, as the loader maps it: what was loaded is a copy.
  const auto size = fs::file_size(library_);
  std::ofstream(library_, std::ios::binary) << std::string(size, '\x7f');
  const fe_plugin_v0* description = (*first)(FE_ABI_MINOR);
  ASSERT_NE(description, nullptr);
  EXPECT_EQ(abi::string(description->id), "test.pure_c");
  auto changed = open_library(library_, hash_);
  ASSERT_FALSE(changed);
  EXPECT_EQ(changed.error().code, "FE-M23");
}

TEST_F(LockedLibrary, IsRefusedWhenItIsExchangedAfterTheManifestWasRead) {
  std::ofstream(folder_ / "p.toml") << "schema = 0\nenable = [\"test.pure_c\"]\n[plugin.\"test.pure_c\"]\n"
                                       "library = \"test.so\"\n";
  const config::PipelineRequest request{(folder_ / "p.toml").string(), {}};
  auto lock = config::Lock::make(request);
  ASSERT_TRUE(lock) << lock.error().message();
  std::ofstream(lock->path()) << lock->text();
  auto pipeline = config::read_pipeline(request);
  ASSERT_TRUE(pipeline) << pipeline.error().message();
  EXPECT_EQ(pipeline->lock, lock->path());
  ASSERT_TRUE(Session::open(*pipeline));
  fs::rename(library_, folder_ / "old.so");
  fs::copy_file(library_of("c_kernel"), library_);
  auto session = Session::open(*pipeline);
  ASSERT_FALSE(session);
  EXPECT_EQ(session.error().code, "FE-M23");
  EXPECT_EQ(session.error().where, (folder_ / "p.toml").string() + ":4:11");
  EXPECT_TRUE(session.error().text.starts_with(library_)) << session.error().text;
}

TEST_F(LockedLibrary, FindsTheLibrariesBesideItsFile) {
  fs::copy_file(library_of("needs_neighbour"), library_, fs::copy_options::overwrite_existing);
  const auto hash = hash_library(library_);
  ASSERT_TRUE(hash);
  const auto alone = open_library(library_, *hash);
  ASSERT_FALSE(alone);
  EXPECT_EQ(alone.error().code, "FE-P02") << alone.error().message();
  fs::create_directory(folder_ / "neighbours");
  fs::copy_file(library_of("neighbours/libneighbour"), folder_ / "neighbours/libneighbour.so");
  const auto entry = open_library(library_, *hash);
  ASSERT_TRUE(entry) << entry.error().message();
  EXPECT_EQ(abi::string((*entry)(FE_ABI_MINOR)->id), "test.pure_c");
}

TEST_F(LockedLibrary, IsForThisMachine) {
  std::fstream file(library_, std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(18);  // e_machine
  file.write("\x08\x00", 2);
  file.close();
  const auto opened = open_library(library_, "");
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, "FE-M16") << opened.error().message();
}

/// Where the last segment of a library ends that is loaded; debug information may lie behind it.
uintmax_t end_of_segments(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  Elf64_Ehdr header{};
  file.read(reinterpret_cast<char*>(&header), sizeof header);
  uintmax_t end = 0;
  for (int k = 0; k < header.e_phnum; ++k) {
    Elf64_Phdr segment{};
    file.seekg(static_cast<std::streamoff>(header.e_phoff) + k * header.e_phentsize);
    file.read(reinterpret_cast<char*>(&segment), sizeof segment);
    if (segment.p_type == PT_LOAD) end = std::max<uintmax_t>(end, segment.p_offset + segment.p_filesz);
  }
  return end;
}

TEST_F(LockedLibrary, IsNotCutShort) {
  for (const uintmax_t size : {uintmax_t{100}, uintmax_t{3000}, end_of_segments(library_) - 1}) {
    fs::resize_file(library_, size);
    const auto opened = open_library(library_, "");
    ASSERT_FALSE(opened) << size;
    EXPECT_EQ(opened.error().code, "FE-P40") << opened.error().message();
    EXPECT_EQ(opened.error().where, library_);
    fs::copy_file(library_of("pure_c"), library_, fs::copy_options::overwrite_existing);
  }
}

TEST_F(LockedLibrary, IsNoPipe) {
  fs::remove(library_);
  ASSERT_EQ(mkfifo(library_.c_str(), 0600), 0);
  EXPECT_EQ(hash_library(library_).error().code, "FE-M14");
  EXPECT_EQ(open_library(library_, hash_).error().code, "FE-P01");
}

}  // namespace
}  // namespace ferrite::core::plugin::test
