// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>

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

// A transposition alone reads and writes whole lines, in squares of two loops. In one loop nest with sums of
// its rows, its stores would be apart.
TEST(FusionOrder, TranspositionStaysApartFromSumsOfItsRows) {
  constexpr std::string_view text = R"(ferrite loops 0
buffer @0 : f32[512, 512] input 0
buffer @1 : f32[512, 512] output 0
buffer @2 : f32[512] output 1
outputs @1, @2
map (i0 < 512, i1 < 512) {
  %0 = load @0[i0, i1] : f32
  %1 = neg %0
  store @1[i1, i0] = %1
}
reduce (i0 < 512, reduce r0 < 512) {
  %0 = load @1[r0, i0] : f32
  reduction 0 = sum %0 : f32
  %1 = reduced 0 : f32
  store @2[i0] = %1
}
)";
  FusionLimits limits;
  limits.target.uncoalesced = 16;
  Ledger ledger;
  EXPECT_EQ(fuse(loop::test::parsed(text), {}, limits, ledger).groups.size(), 2u);
  limits.target.uncoalesced = 1;
  EXPECT_EQ(fuse(loop::test::parsed(text), {}, limits, ledger).groups.size(), 1u);
}

/// Whether the sums of a large temporary's columns and what is added to them are one kernel, where a chain of
/// `between` small statements makes the other operand.
bool adds_at_once(int between) {
  std::string text =
      "ferrite loops 0\nbuffer @0 : f32[4096] input 0\nbuffer @1 : f32[4096, 4096] temporary\n";
  text += "buffer @2 : f32[4096] temporary\nbuffer @3 : f32[4096] output 0\n";
  for (int k = 0; k <= between; ++k) text += fmt::format("buffer @{} : f32[4096] temporary\n", 4 + k);
  text += R"(outputs @3
map (i0 < 4096, i1 < 4096) {
  %0 = load @0[i0] : f32
  %1 = load @0[i1] : f32
  %2 = mul %0, %1
  store @1[i0, i1] = %2
}
reduce (i0 < 4096, reduce r0 < 4096) {
  %0 = load @1[r0, i0] : f32
  reduction 0 = sum %0 : f32
  %1 = reduced 0 : f32
  store @2[i0] = %1
}
)";
  for (int k = 0; k <= between; ++k)
    text += fmt::format(
        "reduce (i0 < 4096, reduce r0 < 2) {{\n  %0 = load @{}[i0 + r0 - r0] : f32\n  reduction 0 = sum %0 : "
        "f32\n  %1 = reduced 0 : f32\n  store @{}[i0] = %1\n}}\n",
        k == 0 ? 0 : 3 + k, 4 + k);
  text += fmt::format(R"(map (i0 < 4096) {{
  %0 = load @2[i0] : f32
  %1 = load @{}[i0] : f32
  %2 = add %0, %1
  store @3[i0] = %2
}}
)",
                      4 + between);
  FusionRequests requests;
  requests.forbidden = {{0, 1}};  // so that the temporary is in memory
  Ledger ledger;
  const auto schedule = fuse(loop::test::parsed(text), requests, {}, ledger);
  const auto has = [&](const Group& group, BufferId buffer) {
    return std::ranges::any_of(group.statements, [&](uint32_t s) {
      return schedule.program.statements[s].stores[0].buffer == buffer;
    });
  };
  return std::ranges::any_of(schedule.groups, [&](const Group& g) { return has(g, 2) && has(g, 3); });
}

TEST(FusionOrder, NoKernelWaitsLongWithLargeOperands) {
  EXPECT_TRUE(adds_at_once(8));
  EXPECT_FALSE(adds_at_once(200));
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
