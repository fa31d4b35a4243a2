// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pages of a plugin's code go, and its code still runs.
#include "runtime/plugin/library_pages.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "runtime/plugin/plugin_library.h"

namespace ferrite::core::plugin {
namespace {

/// KiB of the file's code that are in this process's memory.
int64_t resident_code(const std::string& path) {
  int64_t sum = 0;
  bool its = false;
  std::ifstream maps("/proc/self/smaps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find(" r-xp ") != std::string::npos)
      its = line.ends_with(path);
    else if (line.find(':') > line.find('-'))  // another mapping begins
      its = false;
    else if (its && line.starts_with("Rss:"))
      sum += std::stoll(line.substr(4));
  }
  return sum;
}

TEST(LibraryPages, OfCodeGoAndTheCodeStillRuns) {
  const std::string path = FERRITE_TEST_PLUGINS "/hooks.so";
  const auto entry = open_library(path, {});
  ASSERT_TRUE(entry) << entry.error().message();
  const auto* described = (*entry)(FE_ABI_MINOR);
  ASSERT_NE(described, nullptr);
  const int64_t before = resident_code(path);
  ASSERT_GT(before, 0);
  release_library_pages();
  // A page of two segments stays, and sanitizers' own code runs in the library.
  const int64_t left = resident_code(path);
  EXPECT_LT(left, before);
  EXPECT_EQ((*entry)(FE_ABI_MINOR), described);
  EXPECT_EQ(described->major, FE_ABI_MAJOR);
}

TEST(LibraryPages, OfThisProgramStay) {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  const int64_t before = resident_code(self);
  release_library_pages();
  EXPECT_GE(resident_code(self), before);
}

}  // namespace
}  // namespace ferrite::core::plugin
