// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <gtest/gtest.h>

#include "driver/observe/peaks.h"

namespace ferrite::core::observe {
namespace {

Facts facts(double operations, int64_t bytes) {
  Facts made;
  made.operations = operations;
  made.moved_bytes = bytes;
  return made;
}

const Peaks peaks{1e9, {{1000, 4e9}, {1'000'000, 2e9}}};

TEST(Estimate, OfNothingIsExactlyZero) {
  const loop::Kernel empty;
  EXPECT_EQ(estimate(facts_of(empty), std::nullopt), 0.0);
  EXPECT_EQ(estimate(facts_of(empty), peaks), 0.0);
}

TEST(Estimate, IsUnknownWithoutPeaks) {
  EXPECT_EQ(estimate(facts(1, 0), std::nullopt), std::nullopt);
  EXPECT_EQ(estimate(facts(0, 1), std::nullopt), std::nullopt);
}

TEST(Estimate, IsTheLongerOfOperationsAndBytes) {
  EXPECT_DOUBLE_EQ(*estimate(facts(5e8, 1000), peaks), 0.5);
  EXPECT_FALSE(bound_by_memory(facts(5e8, 1000), peaks));
  EXPECT_DOUBLE_EQ(*estimate(facts(5, 1000), peaks), 1000 / 4e9);
  EXPECT_TRUE(bound_by_memory(facts(5, 1000), peaks));
}

TEST(Estimate, TakesTheBandwidthOfTheSize) {
  EXPECT_EQ(peaks.bandwidth_of(1), 4e9);
  EXPECT_EQ(peaks.bandwidth_of(1001), 2e9);
  EXPECT_EQ(peaks.bandwidth_of(1'000'000'000), 2e9);
}

}  // namespace
}  // namespace ferrite::core::observe
