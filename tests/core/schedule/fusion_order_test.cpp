// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <gtest/gtest.h>

#include "core/schedule/fusion/advisor.h"
#include "core/schedule/schedule.h"
#include "tests/core/ir/loop_support.h"

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

/// Wants every legal pair.
struct Eager : FusionAdvisor {
  std::vector<double> rank(const LoopProgram&, std::span<const FusionPair>) override { return {}; }
  Advice decide(const LoopProgram&, const FusionPair&, const FusionTrial&) override {
    return {Verdict::fuse, "a test"};
  }
  bool has_prices() const override { return false; }
  std::optional<Price> price(const Kernel&) override { return std::nullopt; }
};

// A contraction that computes its operand leaves nothing of it for another reader, whatever a policy wants.
TEST(FusionOrder, OperandThatOthersReadStaysStored) {
  constexpr std::string_view text = R"(ferrite loops 0
buffer @0 : f32[64, 32] input 0
buffer @1 : f32[32, 16] input 1
buffer @2 : f32[64, 32] temporary
buffer @3 : f32[64, 16] output 0
buffer @4 : f32[64, 16] output 1
outputs @3, @4
map (i0 < 64, i1 < 32) {
  %0 = load @0[i0, i1] : f32
  %1 = neg %0
  store @2[i0, i1] = %1
}
contract gemm (i0 < 64, i1 < 16, reduce r0 < 32) of %0, %1 {
  %0 = load @2[i0, r0] : f32
  %1 = load @1[r0, i1] : f32
  %2 = mul %0, %1
  reduction 0 = sum %2 : f32
  %3 = reduced 0 : f32
  store @3[i0, i1] = %3
}
contract gemm (i0 < 64, i1 < 16, reduce r0 < 32) of %0, %1 {
  %0 = load @2[i0, r0] : f32
  %1 = load @1[r0, i1] : f32
  %2 = mul %0, %1
  reduction 0 = sum %2 : f32
  %3 = reduced 0 : f32
  store @4[i0, i1] = %3
}
)";
  Ledger ledger;
  FusionLimits limits;
  limits.prologues = true;
  Eager eager;
  const auto schedule = fuse(loop::test::parsed(text), {}, limits, ledger, &eager);
  size_t stores = 0;
  for (const auto& group : schedule.groups)
    for (uint32_t s : group.statements)
      for (const auto& store : schedule.program.statements[s].stores)
        stores += schedule.program.storage(store.buffer) == 2;
  EXPECT_EQ(stores, 1u) << print(schedule);
}

}  // namespace
}  // namespace ferrite::core::schedule
