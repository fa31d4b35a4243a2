// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The order of kernels that keeps the least memory alive.
#include "core/schedule/memory/kernel_order.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/core/ir/loop_support.h"

namespace ferrite::core::schedule {
namespace {

// All weights are widened first; each is used by another kernel, and the first of these makes a large value.
constexpr std::string_view casts_first = R"(ferrite loops 0
buffer @0 : f16[1024] input 0
buffer @1 : f16[1024] input 1
buffer @2 : f16[1024] input 2
buffer @3 : f32[1024] temporary
buffer @4 : f32[1024] temporary
buffer @5 : f32[1024] temporary
buffer @6 : f32[1024, 64] temporary
buffer @7 : f32[1024] temporary
buffer @8 : f32[1024] temporary
buffer @9 : f32[1024] output 0
outputs @9
map (i0 < 1024) {
  %0 = load @0[i0] : f16
  %1 = cast %0 : f32
  store @3[i0] = %1
}
map (i0 < 1024) {
  %0 = load @1[i0] : f16
  %1 = cast %0 : f32
  store @4[i0] = %1
}
map (i0 < 1024) {
  %0 = load @2[i0] : f16
  %1 = cast %0 : f32
  store @5[i0] = %1
}
map (i0 < 1024, i1 < 64) {
  %0 = load @3[i0] : f32
  %1 = load @3[i1] : f32
  %2 = mul %0, %1
  store @6[i0, i1] = %2
}
reduce (i0 < 1024, reduce r0 < 64) {
  %0 = load @6[i0, r0] : f32
  reduction 0 = sum %0 : f32
  %1 = reduced 0 : f32
  store @7[i0] = %1
}
map (i0 < 1024) {
  %0 = load @7[i0] : f32
  %1 = load @4[i0] : f32
  %2 = add %0, %1
  store @8[i0] = %2
}
map (i0 < 1024) {
  %0 = load @8[i0] : f32
  %1 = load @5[i0] : f32
  %2 = add %0, %1
  store @9[i0] = %2
}
)";

TEST(KernelOrder, CastsOfWeightsRunWhereTheyAreNeeded) {
  Schedule schedule{loop::test::parsed(casts_first), {}};
  for (uint32_t s = 0; s < schedule.program.statements.size(); ++s) schedule.groups.push_back({{s}, 1});
  const auto peak = [&] { return std::ranges::max(live_bytes(schedule)); };
  constexpr int64_t vector = 4 << 10, large = 256 << 10;
  EXPECT_EQ(peak(), 3 * vector + large);  // the sums take the place of the first weight
  order_for_memory(schedule);
  EXPECT_EQ(peak(), vector + large);  // the first weight, then the sums
  std::vector<BufferId> stored;
  for (const auto& statement : schedule.program.statements) stored.push_back(statement.stores[0].buffer);
  EXPECT_EQ(stored, (std::vector<BufferId>{3, 6, 7, 4, 8, 5, 9}));
}

}  // namespace
}  // namespace ferrite::core::schedule
