// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Files that are replaced as a whole: by several writers at a time, through links, and where that fails.
#include "core/support/files/replace_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <thread>

#include <fmt/format.h>

#include "core/support/files/file_descriptor.h"
#include "core/support/files/file_fault.h"
#include "tests/core/support/files/temporary_folder.h"

namespace ferrite::core {
namespace {

class ReplaceFile : public TemporaryFolder {
 protected:
  static std::string replace(const std::string& path, std::string_view text, Links links = Links::followed) {
    const auto chunk = std::as_bytes(std::span(text));
    return replace_file(path, {&chunk, 1}, links);
  }
};

TEST_F(ReplaceFile, WritesItsChunksInOrder) {
  const std::string_view parts[] = {"ab", "", "cd"};
  std::array<std::span<const std::byte>, 3> chunks;
  for (size_t k = 0; k < chunks.size(); ++k) chunks[k] = std::as_bytes(std::span(parts[k]));
  EXPECT_EQ(replace_file(at("file"), chunks), "");
  EXPECT_EQ(contents("file"), "abcd");
  EXPECT_EQ(replace(at("file"), "x"), "") << "shorter than it was";
  EXPECT_EQ(contents("file"), "x");
  EXPECT_EQ(replace_file(at("file"), {}), "");
  EXPECT_EQ(contents("file"), "");
  EXPECT_EQ(names(), std::vector<std::string>{"file"});
}

TEST_F(ReplaceFile, LeavesTheRightToWriteToItsOwner) {
  const mode_t before = umask(0);
  const std::string fault = replace(at("file"), "x");
  umask(before);
  EXPECT_EQ(fault, "");
  EXPECT_EQ(fs::status(at("file")).permissions(), fs::perms(0644));
}

TEST_F(ReplaceFile, FollowsLinksOrReplacesThem) {
  write("target", "old");
  fs::create_symlink("target", at("link"));
  fs::create_symlink("link", at("link of a link"));
  EXPECT_EQ(replace(at("link of a link"), "new"), "");
  EXPECT_EQ(contents("target"), "new");
  EXPECT_TRUE(fs::is_symlink(at("link")) && fs::is_symlink(at("link of a link")));
  fs::create_symlink("made", at("to nothing"));
  EXPECT_EQ(replace(at("to nothing"), "made"), "");
  EXPECT_EQ(contents("made"), "made");
  EXPECT_EQ(replace(at("link"), "own", Links::replaced), "");
  EXPECT_FALSE(fs::is_symlink(at("link")));
  EXPECT_EQ(contents("link"), "own");
  EXPECT_EQ(contents("target"), "new");
}

TEST_F(ReplaceFile, WritesThroughNoFileThatIsThere) {
  write("victim", "kept");
  // The temporary file of a process that crashed, or a link that somebody else put there.
  for (int number = 0; number < 64; ++number)
    fs::create_symlink("victim", at(fmt::format("file.{}.{}", getpid(), number)));
  EXPECT_EQ(replace(at("file"), "new"), "");
  EXPECT_EQ(contents("file"), "new");
  EXPECT_FALSE(fs::is_symlink(at("file")));
  EXPECT_EQ(contents("victim"), "kept");
}

TEST_F(ReplaceFile, SaysWhyItFailsAndLeavesNothing) {
  write("plain", "kept");
  fs::create_directory(at("folder"));
  fs::create_symlink("circle", at("circle"));
  const auto before = names();
  EXPECT_EQ(replace(at("none/of/these"), "x"),
            "there is no folder '" + at("none") + "'; make it, or correct the path");
  EXPECT_EQ(replace(at("plain/file"), "x"), "'" + at("plain") + "' is no folder; correct the path");
  EXPECT_EQ(replace(at("folder"), "x"), "the existing path is no regular file");
  EXPECT_EQ(replace(at("circle"), "x"), "its links lead nowhere");
  EXPECT_EQ(replace(at(std::string(300, 'a')), "x"), "the name is too long; give a shorter one");
  EXPECT_EQ(names(), before);
  EXPECT_EQ(contents("plain"), "kept");
}

// Each writer has a letter of its own.
TEST_F(ReplaceFile, GivesReadersOneWholeFileWhileThreadsAndProcessesWrite) {
  constexpr size_t size = 20'000;
  const std::string path = at("file");
  const auto write_often = [&](char letter) {
    bool done = true;
    for (int k = 0; k < 20; ++k) done = replace(path, std::string(size, letter)).empty() && done;
    return done;
  };
  ASSERT_EQ(replace(path, std::string(size, 'a')), "");
  const pid_t child = fork();
  if (child == 0) _exit(write_often('p') ? 0 : 1);
  std::atomic<int> writing{3}, failed{0};
  std::vector<std::thread> threads;
  for (const char letter : {'b', 'c', 'd'})
    threads.emplace_back([&, letter] {
      if (!write_often(letter)) ++failed;
      --writing;
    });
  do {
    const std::string seen = contents("file");
    EXPECT_TRUE(seen.size() == size && seen.find_first_not_of(seen[0]) == std::string::npos);
  } while (writing > 0);
  for (auto& thread : threads) thread.join();
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(failed, 0);
  EXPECT_EQ(names(), std::vector<std::string>{"file"});
}

TEST(IsUnfinished, TellsTemporaryNamesFromFinalOnes) {
  EXPECT_TRUE(is_unfinished("kernel.bin.12.0", ".bin"));
  EXPECT_TRUE(is_unfinished("1.2.bin.345.67", ".bin"));
  EXPECT_FALSE(is_unfinished("kernel.bin", ".bin"));
  EXPECT_FALSE(is_unfinished("kernel.bin.12", ".bin"));
  EXPECT_FALSE(is_unfinished("kernel.bin.12.x", ".bin"));
  EXPECT_FALSE(is_unfinished("kernel.bin..0", ".bin"));
  EXPECT_FALSE(is_unfinished("kernel.txt.12.0", ".bin"));
  EXPECT_FALSE(is_unfinished("12.0", ""));
  EXPECT_FALSE(is_unfinished("", ""));
}

class FileDescriptors : public TemporaryFolder {};

TEST_F(FileDescriptors, ReadAndWriteAtAnyOffset) {
  const FileDescriptor file(open(at("file").c_str(), O_RDWR | O_CREAT, 0600));
  ASSERT_TRUE(file);
  EXPECT_TRUE(write_at(file.get(), std::as_bytes(std::span(std::string_view("cd"))), 2));
  EXPECT_EQ(contents("file"), std::string("\0\0cd", 4)) << "bytes that nobody wrote are zero";
  EXPECT_TRUE(write_at(file.get(), std::as_bytes(std::span(std::string_view("ab")))));
  std::string three(3, 'x');
  EXPECT_TRUE(read_at(file.get(), std::as_writable_bytes(std::span(three)), 1));
  EXPECT_EQ(three, "bcd");
  EXPECT_FALSE(read_at(file.get(), std::as_writable_bytes(std::span(three)), 2)) << "one byte too few";
  EXPECT_TRUE(read_at(file.get(), {}, 100));
  EXPECT_FALSE(write_at(-1, std::as_bytes(std::span(std::string_view("x")))));
}

TEST_F(FileDescriptors, AreClosedOnceByTheirLastOwner) {
  int number = -1;
  {
    FileDescriptor first(open(at("file").c_str(), O_RDWR | O_CREAT, 0600));
    number = first.get();
    FileDescriptor second(std::move(first));
    first = std::move(second);
    EXPECT_EQ(first.get(), number);
    EXPECT_NE(fcntl(number, F_GETFD), -1) << "neither move closed it";
  }
  EXPECT_EQ(fcntl(number, F_GETFD), -1);
}

}  // namespace
}  // namespace ferrite::core
