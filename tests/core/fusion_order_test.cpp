// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <gtest/gtest.h>

#include "core/schedule/schedule.h"
#include "tests/core/loop_support.h"

namespace ferrite::core::schedule {
namespace {

constexpr std::string_view knot = R"(ferrite loops 0
buffer @0 : f32[64, 64] input 0
buffer @1 : f32[64, 64] temporary
buffer @2 : f32[64, 64] temporary
buffer @3 : f32[64, 64] output 0
buffer @4 : f32[64, 64] temporary
buffer @5 : f32[64, 64] output 1
outputs @3, @5
map (i0 < 64, i1 < 64) {
  %0 = load @0[i0, i1] : f32
  %1 = exp %0
  store @1[i0, i1] = %1
}
map (i0 < 64, i1 < 64) {
  %0 = load @0[i0, i1] : f32
  %1 = neg %0
  store @2[i0, i1] = %1
}
map (i0 < 64, i1 < 64) {
  %0 = load @1[i0, i1] : f32
  %1 = load @2[i0, i1] : f32
  %2 = add %0, %1
  store @3[i0, i1] = %2
}
map (i0 < 64, i1 < 64) {
  %0 = load @1[i0, i1] : f32
  %1 = abs %0
  store @4[i0, i1] = %1
}
map (i0 < 64, i1 < 64) {
  %0 = load @4[i0, i1] : f32
  %1 = load @2[i0, i1] : f32
  %2 = mul %0, %1
  store @5[i0, i1] = %2
}
)";

// 1 and 4 are one group, which stands between 0 and 2: by way of 3, whose number is larger than theirs.
TEST(FusionOrder, NoCycleThroughGroupsThatWereFusedBefore) {
  FusionRequests requests;
  requests.forced = {{1, 4}, {0, 2}};
  Ledger ledger;
  const auto schedule = fuse(loop::test::parsed(knot), requests, {}, ledger);
  size_t statements = 0;
  for (const auto& group : schedule.groups) statements += group.statements.size();
  EXPECT_EQ(statements, 5u) << print(schedule);
}

}  // namespace
}  // namespace ferrite::core::schedule
