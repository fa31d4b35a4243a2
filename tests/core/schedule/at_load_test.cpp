// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which statements run once, at load.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "core/schedule/rewrites/at_load.h"
#include "tests/core/ir/loop_support.h"

namespace ferrite::core::schedule {
namespace {

using Flags = std::vector<bool>;

TEST(AtLoad, FollowsConstantsThroughSeveralWriters) {
  const auto found = at_load(loop::test::parsed(R"(ferrite loops 0
buffer @0 : f32[4] constant 0 "w" weight "w" 16
buffer @1 : f32[8] temporary
buffer @2 : f32[8] input 0
buffer @3 : f32[8] output 0
outputs @3
map (i0 < 4) {
  %0 = load @0[i0] : f32
  store @1[i0] = %0
}
map (i0 < 4) {
  %0 = load @0[i0] : f32
  store @1[i0 + 4] = %0
}
map (i0 < 8) {
  %0 = load @1[i0] : f32
  %1 = load @2[i0] : f32
  %2 = add %0, %1
  store @3[i0] = %2
}
)"));
  EXPECT_EQ(found.statements, (Flags{true, true, false}));
  EXPECT_EQ(found.storages, (Flags{false, true, false, false}));
}

TEST(AtLoad, OneWriterOfARunMakesTheBufferARuns) {
  const auto found = at_load(loop::test::parsed(R"(ferrite loops 0
buffer @0 : f32[4] constant 0 "w" weight "w" 16
buffer @1 : f32[8] temporary
buffer @2 : f32[4] input 0
buffer @3 : f32[8] output 0
outputs @3
map (i0 < 4) {
  %0 = load @0[i0] : f32
  store @1[i0] = %0
}
map (i0 < 4) {
  %0 = load @2[i0] : f32
  store @1[i0 + 4] = %0
}
map (i0 < 8) {
  %0 = load @1[i0] : f32
  store @3[i0] = %0
}
)"));
  EXPECT_EQ(found.statements, (Flags{false, false, false}));
  EXPECT_EQ(found.storages, Flags(4, false));
}

TEST(AtLoad, ContentsThatARunReadsBeforeTheyChangeAreARuns) {
  // At load the second statement would change what the third one is to read as the first one left it.
  constexpr auto text = R"(ferrite loops 0
buffer @0 : f32[4] constant 0 "w" weight "w" 16
buffer @1 : f32[4] temporary
buffer @1.1
buffer @3 : f32[4] input 0
buffer @4 : f32[4] output 0
buffer @5 : f32[4] output 1
outputs @4, @5
map (i0 < 4) {{
  %0 = load @0[i0] : f32
  store @1[i0] = %0
}}
{}map (i0 < 4) {{
  %0 = load @0[i0] : f32
  %1 = load @1[i0] : f32
  %2 = add %0, %1
  store @1.1[i0] = %2
}}
map (i0 < 4) {{
  %0 = load @1.1[i0] : f32
  store @5[i0] = %0
}}
{})";
  constexpr auto read = R"(map (i0 < 4) {{
  %0 = load @{}[i0] : f32
  %1 = load @3[i0] : f32
  %2 = add %0, %1
  store @4[i0] = %2
}}
)";
  const auto before = loop::test::parsed(fmt::format(text, fmt::format(read, "1"), ""));
  EXPECT_EQ(at_load(before).statements, (Flags{false, false, false, false}));
  const auto behind = loop::test::parsed(fmt::format(text, "", fmt::format(read, "1.1")));
  EXPECT_EQ(at_load(behind).statements, (Flags{true, true, false, false}));
}

/// Whether a buffer of so many f32 is kept that is made of a constant of so many.
bool is_kept(int64_t elements, int64_t of) {
  const auto found = at_load(loop::test::parsed(fmt::format(R"(ferrite loops 0
buffer @0 : f32[{1}] constant 0 "w" weight "w" {2}
buffer @1 : f32[{0}] temporary
buffer @2 : f32[{0}] input 0
buffer @3 : f32[{0}] output 0
outputs @3
map (i0 < {0}) {{
  %0 = load @0[i0 mod {1}] : f32
  %1 = exp %0
  store @1[i0] = %1
}}
map (i0 < {0}) {{
  %0 = load @1[i0] : f32
  %1 = load @2[i0] : f32
  %2 = add %0, %1
  store @3[i0] = %2
}}
)",
                                                            elements, of, of * 4)));
  EXPECT_FALSE(found.statements[1]);
  return found.statements[0];
}

TEST(AtLoad, LargeBuffersOfFewConstantsAreNotKept) {
  EXPECT_TRUE(is_kept(16 << 20, 1));
  EXPECT_FALSE(is_kept((16 << 20) + 1, 1));
  EXPECT_TRUE(is_kept(32 << 20, 4 << 20));
  EXPECT_FALSE(is_kept(32 << 20, (4 << 20) - 1));
}

TEST(AtLoad, ResultsGetATemporaryWhereACopyIsCheaper) {
  const auto kept = [](std::string_view prim) {
    auto program = loop::test::parsed(fmt::format(R"(ferrite loops 0
buffer @0 : f32[64] constant 0 "w" weight "w" 256
buffer @1 : f32[64] output 0
outputs @1
map (i0 < 64) {{
  %0 = load @0[i0] : f32
  %1 = {} %0
  store @1[i0] = %1
}}
)",
                                                  prim));
    keep_constant_results(program, TargetNumbers());
    return at_load(program).statements;
  };
  EXPECT_EQ(kept("exp"), (Flags{true, false}));
  EXPECT_EQ(kept("neg"), (Flags{false}));
}

}  // namespace
}  // namespace ferrite::core::schedule
