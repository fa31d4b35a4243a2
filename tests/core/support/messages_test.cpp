// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Texts for people: names from files, words of shell commands, suggestions, the ledger, log and warnings.
#include <gtest/gtest.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "core/support/ledger.h"
#include "core/support/printable.h"
#include "core/support/shell.h"
#include "core/support/split.h"
#include "core/support/suggest.h"
#include "core/support/warning.h"

namespace ferrite::core {
namespace {

using Parts = std::vector<std::string_view>;

TEST(Printable, WritesControlCharactersAsNumbers) {
  EXPECT_EQ(printable("a\x1b[31mb"), "a\\x1b[31mb");
  EXPECT_EQ(printable(std::string_view("\0\r\x7f\x1f", 4)), "\\x00\\x0d\\x7f\\x1f");
  EXPECT_EQ(printable("\xc2\x80\xc2\x9b\xc2\x9f"), "\\xc2\\x80\\xc2\\x9b\\xc2\\x9f") << "C1 in UTF-8";
  EXPECT_EQ(printable("\xc2\x1b"), "\xc2\\x1b") << "a character cut short hides no other";
}

TEST(Printable, KeepsEverythingElse) {
  for (const std::string text :
       {"", "a\tb\n", "\xc2\xa0\xc3\xa9", "\xe2\x82\xac", "\xc2", "\xff\xfe", "\\x1b"})
    EXPECT_EQ(printable(text), text);
}

TEST(ShellWord, QuotesOnlyWhereAShellNeedsIt) {
  EXPECT_EQ(shell_word("a-b_c/d.e,f:g=h@1%2+3"), "a-b_c/d.e,f:g=h@1%2+3");
  EXPECT_EQ(shell_word(""), "''");
  EXPECT_EQ(shell_word("a b"), "'a b'");
  EXPECT_EQ(shell_word("it's"), "'it'\\''s'");
  EXPECT_EQ(shell_word("~"), "'~'");
}

TEST(ShellWord, IsReadByAShellAsItWas) {
  std::string each;
  for (int c = 1; c < 256; ++c) each += static_cast<char>(c);
  std::string command = "printf '%s\\0'", expected;
  for (const std::string& word :
       {std::string(), std::string("it's"), std::string("''"), std::string("$(false) `false` $HOME"),
        std::string("a\n b"), std::string("\xff\xc2"), std::string("-n"), std::string("\\"), each}) {
    command += " " + shell_word(word);
    expected += word + '\0';
  }
  // NOLINTNEXTLINE(bugprone-command-processor): what a shell reads is the test
  const std::unique_ptr<FILE, int (*)(FILE*)> shell(popen(command.c_str(), "r"), pclose);
  ASSERT_TRUE(shell);
  std::string read(expected.size() + 1, '\0');
  read.resize(std::fread(read.data(), 1, read.size(), shell.get()));
  EXPECT_EQ(read, expected);
}

TEST(Split, KeepsEmptyParts) {
  EXPECT_EQ(split("", ','), Parts{""});
  EXPECT_EQ(split("a", ','), Parts{"a"});
  EXPECT_EQ(split("a,b;c", ','), (Parts{"a", "b;c"}));
  EXPECT_EQ(split(",a,,", ','), (Parts{"", "a", "", ""}));
}

std::string nearest(std::string_view wrong, const Parts& known) { return suggest(wrong, known); }

TEST(Suggest, TakesTheFirstOfTies) {
  EXPECT_EQ(nearest("far", {"bar", "car"}), "bar");
  EXPECT_EQ(nearest("far", {"car", "bar"}), "car");
  // Each needs one edit; the second one shares more of the beginning.
  EXPECT_EQ(nearest("maps", {"caps", "mapt"}), "mapt");
  EXPECT_EQ(nearest("maps", {"mapt", "caps"}), "mapt");
}

TEST(Suggest, AllowsAQuarterOfTheLettersToDiffer) {
  EXPECT_EQ(nearest("abcdefgh", {"abcdefxy"}), "abcdefxy");
  EXPECT_EQ(nearest("abcdefgh", {"abcdexyz"}), "");
  EXPECT_EQ(nearest("abcdefgh", {"bacdefhg"}), "bacdefhg") << "a swap of neighbours is one edit";
  EXPECT_EQ(nearest("abcdefg", {"bacdegf"}), "") << "two edits in seven letters";
  EXPECT_EQ(nearest("a", {"b"}), "") << "every letter differs";
  EXPECT_EQ(nearest("exact", {"exact", "exacts"}), "exact");
}

TEST(Suggest, SuggestsNothingForNothingOrForLongNames) {
  EXPECT_EQ(nearest("", {"a", ""}), "");
  EXPECT_EQ(nearest("abc", {}), "");
  const std::string longest(128, 'a'), longer(129, 'a'), near = longest.substr(1) + "b";
  EXPECT_EQ(nearest(longest, {near}), near);
  EXPECT_EQ(nearest(longer, {longest}), "");
}

TEST(Suggest, IsAppendedToErrors) {
  const Parts known = {"it's", "before"};
  EXPECT_EQ(did_you_mean("its", known), "; did you mean 'it's'?");
  EXPECT_EQ(did_you_mean("colour", known), "");
}

TEST(LedgerJson, IsValidWhateverNamesContain) {
  Ledger ledger;
  EXPECT_EQ(ledger_json(ledger.records()), "[]");
  ledger.add({"fusion", "a\"b\\\n", "\xff", "fused", "", "\xc3\xa9", 2.5});
  ledger.add({"pass", "second", "", "", "", "", 0});
  const auto list = nlohmann::json::parse(ledger_json(ledger.records()));
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[0]["subject"].get<std::string>(), "a\"b\\\n");
  EXPECT_EQ(list[0]["object"].get<std::string>(), "\xef\xbf\xbd") << "the replacement character";
  EXPECT_EQ(list[0]["text"].get<std::string>(), "\xc3\xa9");
  EXPECT_EQ(list[0]["score"].get<double>(), 2.5);
  EXPECT_EQ(list[1]["subject"].get<std::string>(), "second") << "in the order of the decisions";
}

// One test: channels are of the whole process and are never turned off.
TEST(Log, WritesWholeLinesOfEnabledChannels) {
  EXPECT_FALSE(log::enabled("loops"));
  const auto refused = log::enable("lops");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, "FE-C03");
  ASSERT_TRUE(log::enable("loops,,graph"));
  EXPECT_EQ(log::enabled_channels(), "graph,loops");
  EXPECT_FALSE(log::enabled("passes"));
  EXPECT_FALSE(log::enabled("lops"));

  testing::internal::CaptureStderr();
  log::print("graph", "{}\n{}\x1b", 1, "two");
  log::print("passes", "not shown");
  log::warn("graph", "warned");
  log::warn("passes", "not shown either");
  log::show_warnings();
  log::warn("passes", "left\nout");
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "[graph] 1\n[graph] two\\x1b\n[graph] warned\nferrite: warning: left out\n");
}

}  // namespace
}  // namespace ferrite::core
