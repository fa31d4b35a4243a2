// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A folder of the user: where it is, whose files are trusted, which are listed and which are removed.
#include "core/support/files/user_folder.h"

#include <sys/stat.h>

#include <chrono>
#include <optional>

#include "tests/core/support/files/temporary_folder.h"

namespace ferrite::core::cache {
namespace {

/// A variable of the environment, as it was before when this object ends.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    set(value);
  }
  ~Variable() { set(before_ ? before_->c_str() : nullptr); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;
  void set(const char* value) const { value ? setenv(name_, value, 1) : unsetenv(name_); }

 private:
  const char* name_;
  std::optional<std::string> before_;
};

TEST(UserFolderPath, ComesFromAbsolutePathsOnly) {
  const Variable cache("XDG_CACHE_HOME", "/var/cache"), home("HOME", "/var/me");
  EXPECT_EQ(user_folder("kernels"), "/var/cache/ferrite/kernels");
  for (const char* none : {"cache", "", static_cast<const char*>(nullptr)}) {
    cache.set(none);
    EXPECT_EQ(user_folder("kernels"), "/var/me/.cache/ferrite/kernels");
  }
  for (const char* none : {"me", "", static_cast<const char*>(nullptr)}) {
    home.set(none);
    EXPECT_EQ(user_folder("kernels"), "");
  }
}

class UserFolder : public TemporaryFolder {
 protected:
  /// The reason for which a file is not read, or its contents in brackets.
  std::string read(const std::string& name, uint64_t most_bytes = 100) const {
    std::string fault = "of another file";
    const auto text = read_file(at(name), most_bytes, fault);
    EXPECT_TRUE(!text || fault.empty()) << fault;
    return text ? "[" + *text + "]" : fault;
  }
  void make(const std::string& name, std::chrono::minutes unused) const {
    write(name, "x");
    fs::last_write_time(at(name), fs::file_time_type::clock::now() - unused);
  }
};

TEST_F(UserFolder, IsMadeForItsOwnerAlone) {
  const std::string folder = at("a/b");
  EXPECT_EQ(distrusted(folder), "") << "it does not exist yet";
  EXPECT_EQ(write_file(folder, "k.bin", "text"), "");
  EXPECT_EQ(fs::status(folder).permissions(), fs::perms::owner_all);
  EXPECT_EQ(distrusted(folder), "");
  EXPECT_EQ(read("a/b/k.bin"), "[text]");
  fs::permissions(folder, fs::perms(0770));
  EXPECT_EQ(distrusted(folder), "others may write to it");
  EXPECT_EQ(distrusted(folder + "/k.bin"), "it is no folder");
}

TEST_F(UserFolder, ReadsOnlyFilesThatNobodyElseCanHaveWritten) {
  EXPECT_EQ(read("none"), "") << "a missing file is no fault";
  write("file", "four");
  fs::permissions(at("file"), fs::perms(0644));
  EXPECT_EQ(read("file", 4), "[four]");
  EXPECT_EQ(read("file", 3), "it is too large");
  fs::create_symlink("file", at("link"));
  EXPECT_EQ(read("link"), "it is a link");
  EXPECT_EQ(read("."), "it is no regular file");
  ASSERT_EQ(mkfifo(at("pipe").c_str(), 0600), 0);
  EXPECT_EQ(read("pipe"), "it is no regular file");
  fs::permissions(at("file"), fs::perms(0646));
  EXPECT_EQ(read("file"), "others may write to it");
  write("empty", "");
  fs::permissions(at("empty"), fs::perms(0600));
  EXPECT_EQ(read("empty", 0), "[]");
}

TEST_F(UserFolder, ListsFilesBySuffix) {
  write("b.bin", "12");
  write("a.bin", "");
  write("c.txt", "");
  make("old.bin", std::chrono::minutes(10));
  const auto files = list(folder_, ".bin");
  ASSERT_TRUE(files) << files.error().message();
  ASSERT_EQ(files->size(), 3u);
  EXPECT_EQ((*files)[0].name, "a.bin");
  EXPECT_EQ((*files)[1].name, "b.bin");
  EXPECT_EQ((*files)[1].bytes, 2u);
  EXPECT_LT((*files)[1].unused, 300);
  EXPECT_GE((*files)[2].unused, 600);
  const auto missing = list(at("none"), ".bin");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, "FE-K30");
  EXPECT_EQ(missing.error().where, at("none"));
}

TEST_F(UserFolder, LosesWhatInterruptedWritesLeftBehind) {
  using std::chrono::minutes;
  make("abandoned.bin.1.2", minutes(61));
  make("in_use.bin.1.3", minutes(59));
  make("finished.bin", minutes(61));
  make("other.txt.1.2", minutes(61));
  const auto abandoned = list_abandoned(folder_, ".bin");
  ASSERT_TRUE(abandoned) << abandoned.error().message();
  ASSERT_EQ(abandoned->size(), 1u);
  EXPECT_EQ((*abandoned)[0].name, "abandoned.bin.1.2");
  EXPECT_EQ(write_file(folder_, "new.bin", "x"), "");
  EXPECT_EQ(names(),
            (std::vector<std::string>{"finished.bin", "in_use.bin.1.3", "new.bin", "other.txt.1.2"}));
  make("later.bin.1.2", minutes(61));
  EXPECT_EQ(write_file(folder_, "new.bin", "y"), "");
  EXPECT_TRUE(fs::exists(at("later.bin.1.2"))) << "a process looks for them once";
  EXPECT_EQ(contents("new.bin"), "y");
}

}  // namespace
}  // namespace ferrite::core::cache
