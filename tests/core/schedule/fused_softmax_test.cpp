// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A softmax between two products as one kernel, where the target asks for that.
#include <gtest/gtest.h>

#include "core/schedule/schedule.h"
#include "tests/core/ir/loop_support.h"

namespace ferrite::core::schedule {
namespace {

const std::string attention = R"(ferrite loops 0
buffer @0 : f16[2, 64, 32] input 0 "q"
buffer @1 : f16[2, 96, 32] input 1 "k"
buffer @2 : f16[2, 96, 40] input 2 "v"
buffer @3 : f16[2, 32, 96] temporary "t"
buffer @4 : f16[2, 64, 96] temporary "s"
buffer @5 : f32[2, 64, 96] temporary
buffer @6 : f32[2, 64, 1] temporary
buffer @7 : f32[2, 64, 96] temporary
buffer @8 : f32[2, 64, 96] temporary
buffer @9 : f32[2, 64, 1] temporary
buffer @10 : f32[2, 64, 1] temporary
buffer @11 : f32[2, 64, 96] temporary
buffer @12 : f16[2, 64, 96] temporary
buffer @13 : f16[2, 64, 40] output 0 "r"
outputs @13
contract gemm (i0 < 2, i1 < 64, i2 < 96, reduce r0 < 32) of %2, %0 from "" (transpose %0), "" (matmul %1) {
  %0 = load @1[i0, i2, r0] : f16
  %1 = cast %0 : f32
  %2 = load @0[i0, i1, r0] : f16
  %3 = cast %2 : f32
  %4 = mul %3, %1
  reduction 0 = sum %4 : f32
  %5 = reduced 0 : f32
  %6 = cast %5 : f16
  store @4[i0, i1, i2] = %6
}
map (i0 < 2, i1 < 64, i2 < 96) from "" (cast %4) {
  %0 = load @4[i0, i1, i2] : f16
  %1 = cast %0 : f32
  store @5[i0, i1, i2] = %1
}
reduce (i0 < 2, i1 < 64, reduce r0 < 96) from "" (reduce_max %5) {
  %0 = load @5[i0, i1, r0] : f32
  reduction 0 = max %0 : f32
  %1 = reduced 0 : f32
  store @6[i0, i1, 0] = %1
}
map (i0 < 2, i1 < 64, i2 < 96) from "" (sub %6), "" (exp %7) {
  %0 = load @5[i0, i1, i2] : f32
  %1 = load @6[i0, i1, 0] : f32
  %2 = sub %0, %1
  %3 = exp %2
  store @8[i0, i1, i2] = %3
}
reduce (i0 < 2, i1 < 64, reduce r0 < 96) from "" (reduce_sum %8) {
  %0 = load @8[i0, i1, r0] : f32
  reduction 0 = sum %0 : f32
  %1 = reduced 0 : f32
  store @9[i0, i1, 0] = %1
}
map (i0 < 2, i1 < 64) from "" (reciprocal %9) {
  %0 = load @9[i0, i1, 0] : f32
  %1 = reciprocal %0
  store @10[i0, i1, 0] = %1
}
map (i0 < 2, i1 < 64, i2 < 96) from "" (mul %10), "" (cast %11) {
  %0 = load @8[i0, i1, i2] : f32
  %1 = load @10[i0, i1, 0] : f32
  %2 = mul %0, %1
  %3 = cast %2 : f16
  store @12[i0, i1, i2] = %3
}
contract gemm (i0 < 2, i1 < 64, i2 < 40, reduce r0 < 96) of %2, %0 from "" (matmul %3) {
  %0 = load @2[i0, r0, i2] : f16
  %1 = cast %0 : f32
  %2 = load @12[i0, i1, r0] : f16
  %3 = cast %2 : f32
  %4 = mul %3, %1
  reduction 0 = sum %4 : f32
  %5 = reduced 0 : f32
  %6 = cast %5 : f16
  store @13[i0, i1, i2] = %6
}
)";

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

struct Fused {
  Schedule schedule;
  std::string refusal;  ///< of the products: the category and why
};

Fused fused(const std::string& text, Products products = Products::softmax) {
  FusionLimits limits;
  limits.target.products = products;
  Ledger ledger;
  Fused result{fuse(loop::test::parsed(text), {}, limits, ledger), {}};
  for (const auto& record : ledger.records())
    if (record.outcome == "refused" && record.subject.find("matmul") != std::string::npos &&
        record.object.find("matmul") != std::string::npos)
      result.refusal = record.category + ": " + record.text;
  return result;
}

TEST(FusedSoftmax, AreOneGroup) {
  const auto made = fused(attention);
  ASSERT_EQ(made.schedule.groups.size(), 1u) << print(made.schedule);
  EXPECT_EQ(made.schedule.groups[0].shared, 2u);
  EXPECT_EQ(made.refusal, "");
}

TEST(FusedSoftmax, StayApartWhereTheTargetSaysSo) {
  const auto made = fused(attention, Products::apart);
  EXPECT_EQ(made.schedule.groups.size(), 3u) << print(made.schedule);
}

TEST(FusedSoftmax, WhatIsNoSuchKernelStaysApart) {
  struct Case {
    std::string text, refusal;
  };
  const std::vector<Case> cases = {
      {replaced(replaced(attention, "f16[2, 64, 32]", "f32[2, 64, 32]"), "@0[i0, i1, r0] : f16",
                "@0[i0, i1, r0] : f32"),
       "contraction: its operands are no floats of 16 bits"},
      {replaced(attention, "reduction 0 = max", "reduction 0 = min"), ""},
      {replaced(attention, "= exp ", "= tanh "), "contraction: its powers are no exponentials in f32"},
      {replaced(replaced(attention, "i1 < 64", "i1 < 8"), "[2, 64,", "[2, 8,"),
       "cost: 8 rows: too few for a tile"},
  };
  for (const auto& [text, refusal] : cases) {
    const auto made = fused(text);
    EXPECT_GT(made.schedule.groups.size(), 1u) << print(made.schedule);
    EXPECT_EQ(made.refusal, refusal) << print(made.schedule);
  }
}

}  // namespace
}  // namespace ferrite::core::schedule
