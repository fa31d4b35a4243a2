// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The result of fusion is legal by the rule that passes of plugins are held to, and stays so when it is cut.
#include <gtest/gtest.h>

#include "core/schedule/fusion/legality.h"
#include "core/schedule/schedule.h"
#include "tests/core/ir/loop_support.h"

namespace ferrite::core::schedule {
namespace {

constexpr std::string_view largest_power = R"(ferrite loops 0
buffer @0 : f32[16] input 0
buffer @1 : f32[16] output 0
buffer @2 : f32[16] output 1
buffer @3 : f32[] output 2
outputs @1, @2, @3
map (i0 < 16) {
  %0 = load @0[i0] : f32
  %1 = exp %0
  store @1[i0] = %1
}
map (i0 < 16) {
  %0 = load @1[i0] : f32
  %1 = sqrt %0
  store @2[i0] = %1
}
reduce (reduce r0 < 16) {
  %0 = load @2[r0] : f32
  reduction 0 = max %0 : f32
  %1 = reduced 0 : f32
  store @3[] = %1
}
)";

Schedule fused() {
  Ledger ledger;
  return fuse(loop::test::parsed(largest_power), {}, {}, ledger);
}

TEST(Legality, MapsRunInsideOfAReductionOfEverything) {
  const auto schedule = fused();
  ASSERT_EQ(schedule.groups, (std::vector<Group>{{{0, 1, 2}, 0}})) << print(schedule);
  const auto verified = verify(schedule);
  EXPECT_TRUE(verified) << verified.error().message();
}

TEST(Legality, WhatIsCutSharesItsLoopsAgain) {
  for (const size_t head : {1u, 2u}) {
    auto schedule = fused();
    split_group(schedule, 0, head);
    ASSERT_EQ(schedule.groups.size(), 2u);
    EXPECT_EQ(schedule.groups[0].shared, 1u);
    EXPECT_EQ(schedule.groups[1].shared, 0u);
    const auto verified = verify(schedule);
    EXPECT_TRUE(verified) << verified.error().message();
  }
}

TEST(Legality, SaysWhichStatementDoesNotFit) {
  const auto schedule = fused();
  const std::vector<uint32_t> all = {0, 1, 2};
  const auto found = misfit(schedule.program, all, 1);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->statement, 2u);
  EXPECT_EQ(found->text, "it lacks the 1 variable that its group shares");
}

}  // namespace
}  // namespace ferrite::core::schedule
