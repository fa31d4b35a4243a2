// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How large a body inlining makes at most.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "core/ir/loop/index_size.h"
#include "core/schedule/schedule.h"
#include "tests/core/ir/loop_support.h"

namespace ferrite::core::schedule {
namespace {

/// What is left of `count` maps over 64 points: map k reads what map k - 1 made, and where `joins`, an input
/// of its own too.
LoopProgram inlined(int count, bool joins) {
  std::string text = "ferrite loops 0\nbuffer @0 : f32[64] input 0\n";
  const auto add = [&](int buffer, const std::string& attributes) {
    text += fmt::format("buffer @{} : f32[64] {}\n", buffer, attributes);
  };
  const int first_input = count + 1;
  for (int k = 1; k <= count; ++k) add(k, k == count ? "output 0" : "temporary");
  if (joins)
    for (int k = 1; k <= count; ++k) add(first_input + k - 1, fmt::format("input {}", k));
  text += fmt::format("outputs @{}\n", count);
  for (int k = 1; k <= count; ++k)
    text +=
        fmt::format("map (i0 < 64) {{\n  %0 = load @{}[i0] : f32\n{}  store @{}[i0] = %{}\n}}\n", k - 1,
                    joins ? fmt::format("  %1 = load @{}[i0] : f32\n  %2 = add %0, %1\n", first_input + k - 1)
                          : "  %1 = tanh %0\n",
                    k, joins ? 2 : 1);
  auto program = loop::test::parsed(text);
  Ledger ledger;
  inline_producers(program, {}, ledger);
  return program;
}

TEST(Inline, StopsAtEightLoads) {
  // The value that is replaced counts as a load of its reader.
  EXPECT_EQ(inlined(6, true).statements.size(), 1u);
  EXPECT_EQ(inlined(7, true).statements.size(), 2u);
}

TEST(Inline, StopsAtNinetySixOperations) {
  const auto whole = inlined(94, false);
  ASSERT_EQ(whole.statements.size(), 1u);
  EXPECT_EQ(whole.statements[0].ops.size(), 95u);
  EXPECT_EQ(inlined(95, false).statements.size(), 2u);
}

/// What is left of a map from f32 that two statements read: a plain copy of `kept` rows to a result, and
/// another map. The map stores `dtype`.
size_t left_of_copied(int64_t kept, std::string_view dtype) {
  auto program = loop::test::parsed(fmt::format(R"(ferrite loops 0
buffer @0 : f32[64, 8] input 0
buffer @1 : {1}[64, 8] temporary
buffer @2 : {1}[{0}, 8] output 0
buffer @3 : {1}[64, 8] output 1
outputs @2, @3
map (i0 < 64, i1 < 8) {{
  %0 = load @0[i0, i1] : f32
  %1 = cast %0 : {1}
  %2 = neg %1
  store @1[i0, i1] = %2
}}
map (i0 < {0}, i1 < 8) {{
  %0 = load @1[i0, i1] : {1}
  store @2[i0, i1] = %0
}}
map (i0 < 64, i1 < 8) {{
  %0 = load @1[i0, i1] : {1}
  %1 = abs %0
  store @3[i0, i1] = %1
}}
)",
                                                kept, dtype));
  Ledger ledger;
  inline_producers(program, {}, ledger);
  return program.statements.size();
}

TEST(Inline, KeepsWhatIsCopiedToAResult) {
  EXPECT_EQ(left_of_copied(64, "f16"), 3u);  // it is in memory in any case, and smaller than its input
  EXPECT_EQ(left_of_copied(32, "f16"), 2u);  // a part of it is a result
  EXPECT_EQ(left_of_copied(64, "f64"), 2u);  // its input is smaller
}

TEST(Inline, StopsBeforeAnIndexIsTooLarge) {
  // Each map transfers what it reads, and has its variable twice in the index: composed, the 40th would have
  // 2^40 of them.
  constexpr int count = 40;
  std::string text = "ferrite loops 0\nbuffer @0 : f32[10] input 0\n";
  for (int k = 1; k <= count; ++k)
    text += fmt::format("buffer @{} : f32[10] {}\n", k, k == count ? "output 0" : "temporary");
  text += fmt::format("outputs @{}\n", count);
  for (int k = 1; k <= count; ++k)
    text += fmt::format(
        "map (i0 < 10) {{\n  %0 = load @{}[max(max(5 - i0, i0 - 3), 0)] : f32\n  store @{}[i0] = %0\n}}\n",
        k - 1, k);
  auto program = loop::test::parsed(text);
  Ledger ledger;
  inline_producers(program, {}, ledger);
  EXPECT_GT(program.statements.size(), 1u);
  EXPECT_LT(program.statements.size(), count / 2u);
  for (const auto& statement : program.statements)
    for (const auto& op : statement.ops)
      for (const auto expr : op.index) {
        const auto size = loop::size_of(program.pool, expr);
        EXPECT_LE(size.levels, 64u);
        EXPECT_LE(size.parts, 512u);
      }
}

TEST(Inline, CountsNoSingleNumbersAsLoads) {
  // Twelve maps, each of which adds an input of one number.
  std::string text = "ferrite loops 0\nbuffer @0 : f32[64] input 0\n";
  constexpr int count = 12;
  for (int k = 1; k <= count; ++k)
    text += fmt::format("buffer @{} : f32[64] {}\nbuffer @{} : f32[] input {}\n", 2 * k - 1,
                        k == count ? "output 0" : "temporary", 2 * k, k);
  text += fmt::format("outputs @{}\n", 2 * count - 1);
  for (int k = 1; k <= count; ++k)
    text += fmt::format(
        "map (i0 < 64) {{\n  %0 = load @{}[i0] : f32\n  %1 = load @{}[] : f32\n  %2 = add %0, %1\n"
        "  store @{}[i0] = %2\n}}\n",
        k == 1 ? 0 : 2 * k - 3, 2 * k, 2 * k - 1);
  auto program = loop::test::parsed(text);
  Ledger ledger;
  inline_producers(program, {}, ledger);
  EXPECT_EQ(program.statements.size(), 1u);
}

}  // namespace
}  // namespace ferrite::core::schedule
