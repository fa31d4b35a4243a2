// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What is decided by the numbers of a target.
#include "runtime/target/target_numbers.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "core/schedule/rewrites/split.h"
#include "core/support/abi/abi.h"
#include "runtime/target/number_table.h"
#include "tests/core/ir/loop_support.h"

namespace ferrite::core::schedule {
namespace {

// The last statement reads one of its operands across its lines.
constexpr std::string_view transposed = R"(ferrite loops 0
buffer @0 : f32[1024, 512] input 0
buffer @1 : f32[512, 1024] input 1
buffer @2 : f32[1024, 512] output 0
buffer @3 : f32[512, 1024] output 1
buffer @4 : f32[1024, 512] output 2
outputs @2, @3, @4
map (i0 < 1024, i1 < 512) {
  %0 = load @0[i0, i1] : f32
  %1 = neg %0
  store @2[i0, i1] = %1
}
map (i0 < 512, i1 < 1024) {
  %0 = load @1[i0, i1] : f32
  %1 = neg %0
  store @3[i0, i1] = %1
}
map (i0 < 1024, i1 < 512) {
  %0 = load @2[i0, i1] : f32
  %1 = load @3[i1, i0] : f32
  %2 = add %0, %1
  store @4[i0, i1] = %2
}
)";

using loop::test::parsed;

/// Groups, and the text of the refusal of b and c.
std::pair<size_t, std::string> fused(std::string_view text, const TargetNumbers& target) {
  Ledger ledger;
  FusionLimits limits;
  limits.target = target;
  const auto schedule = fuse(parsed(text), {}, limits, ledger);
  EXPECT_TRUE(verify(schedule));
  std::string refusal;
  for (const auto& record : ledger.records())
    if (record.outcome == "refused") refusal = record.category + ": " + record.text;
  return {schedule.groups.size(), refusal};
}

TEST(TargetNumbers, PriceAccessesThatNoInnerLoopWalks) {
  TargetNumbers target;
  const auto [groups, refusal] = fused(transposed, target);
  EXPECT_EQ(groups, 3u);  // alone, the last one is walked in squares of two loops
  EXPECT_NE(refusal.find("uncoalesced ones count 16 times"), std::string::npos) << refusal;
  target.uncoalesced = 3;
  EXPECT_EQ(fused(transposed, target).first, 3u);
  target.uncoalesced = 2;
  EXPECT_EQ(fused(transposed, target).first, 1u);
}

std::string rows_text(int64_t rows, int64_t columns) {
  const auto type = fmt::format("f32[{}, {}]", rows, columns);
  return fmt::format(R"(ferrite loops 0
buffer @0 : {0} input 0
buffer @1 : f32[{1}] temporary
buffer @2 : {0} output 0
outputs @2
reduce (i0 < {1}, reduce r0 < {2}) {{
  %0 = load @0[i0, r0] : f32
  reduction 0 = sum %0 : f32
  %1 = reduced 0 : f32
  store @1[i0] = %1
}}
map (i0 < {1}, i1 < {2}) {{
  %0 = load @0[i0, i1] : f32
  %1 = load @1[i0] : f32
  %2 = sub %0, %1
  store @2[i0, i1] = %2
}}
)",
                     type, rows, columns);
}

TEST(TargetNumbers, SayWhichIterationsKeepWorkersBusy) {
  TargetNumbers target;
  target.launch_ns = 512;
  EXPECT_EQ(fused(rows_text(8, 8192), target).first, 1u);
  EXPECT_EQ(fused(rows_text(4, 8192), target).second, "cost: only 4 iterations are shared");
  target.workers = 4;
  EXPECT_EQ(fused(rows_text(4, 8192), target).first, 1u);
  // What the workers at work take longer is less than a launch.
  target.workers = 8;
  target.launch_ns = 2048;
  EXPECT_EQ(fused(rows_text(4, 8192), target).first, 1u);
  // Where arithmetic takes longer than memory they work longer.
  target.operations = target.bandwidth / 32;
  EXPECT_EQ(fused(rows_text(4, 8192), target).second, "cost: only 4 iterations are shared");
}

int64_t parts(int64_t rows, int64_t columns, const TargetNumbers& target) {
  const auto program = parsed(rows_text(rows, columns));
  return program.statements.empty() ? 0 : parts_that_pay(program, program.statements[0], target);
}

TEST(TargetNumbers, DivideReductions) {
  TargetNumbers target;
  EXPECT_EQ(parts(1, 1 << 22, target), 64);
  EXPECT_EQ(parts(8, 1 << 19, target), 1);
  target.workers = 64;
  EXPECT_EQ(parts(8, 1 << 19, target), 64);
  target.workers = 2;
  EXPECT_EQ(parts(2, 1 << 21, target), 1);
  // A launch more is worth what memory moves meanwhile.
  target = {};
  EXPECT_EQ(parts(1, 300'000, target), 4);
  target.bandwidth *= 4;
  EXPECT_EQ(parts(1, 300'000, target), 1);
  target.launch_ns /= 8;
  EXPECT_EQ(parts(1, 300'000, target), 9);
}

/// The longer of what a point reads and what it computes counts.
TEST(TargetNumbers, DivideReductionsThatCompute) {
  const auto parts_of_powers = [](int64_t columns, const TargetNumbers& target) {
    const auto program = parsed(fmt::format(R"(ferrite loops 0
buffer @0 : f32[{0}] input 0
buffer @1 : f32[] output 0
outputs @1
reduce (reduce r0 < {0}) {{
  %0 = load @0[r0] : f32
  %1 = mul %0, %0
  %2 = mul %1, %1
  %3 = mul %2, %2
  %4 = mul %3, %3
  reduction 0 = sum %4 : f32
  %5 = reduced 0 : f32
  store @1[] = %5
}}
)",
                                            columns));
    return program.statements.empty() ? 0 : parts_that_pay(program, program.statements[0], target);
  };
  TargetNumbers target;
  EXPECT_EQ(parts(1, 150'000, target), 1);
  EXPECT_EQ(parts_of_powers(150'000, target), 4);
  target.operations *= 2;
  EXPECT_EQ(parts_of_powers(150'000, target), 1);
}

int64_t parts_of_columns(int64_t rows, int64_t columns, const TargetNumbers& target) {
  const auto text = fmt::format(R"(ferrite loops 0
buffer @0 : f32[{0}, {1}] input 0
buffer @1 : f32[{1}] output 0
outputs @1
reduce (i0 < {1}, reduce r0 < {0}) {{
  %0 = load @0[r0, i0] : f32
  reduction 0 = sum %0 : f32
  %1 = reduced 0 : f32
  store @1[i0] = %1
}}
)",
                                rows, columns);
  const auto program = parsed(text);
  return program.statements.empty() ? 0 : parts_that_pay(program, program.statements[0], target);
}

/// Of many workers, as a device has them: a block each would leave threads idle.
TEST(TargetNumbers, DivideForManyWorkers) {
  TargetNumbers target;
  target.workers = 528;
  target.bandwidth = 9'000'000'000;
  target.launch_ns = 2000;
  EXPECT_EQ(parts(1, 1 << 28, target), 528 * 32);
  EXPECT_EQ(parts_of_columns(1 << 25, 8, target), 528 * 32);
  EXPECT_EQ(parts_of_columns(1 << 15, 8, target), (1 << 18) / (4500 / 2));
}

TEST(TargetNumbers, ComputeAgainWhatIsDearToMove) {
  constexpr std::string_view text = R"(ferrite loops 0
buffer @0 : f32[64, 64] input 0
buffer @1 : f32[64, 64] temporary
buffer @2 : f32[64, 64] output 0
buffer @3 : f32[64, 64] output 1
outputs @2, @3
map (i0 < 64, i1 < 64) {
  %0 = load @0[i0, i1] : f32
  %1 = neg %0
  %2 = add %0, %1
  %3 = mul %1, %2
  store @1[i0, i1] = %3
}
map (i0 < 64, i1 < 64) {
  %0 = load @1[i0, i1] : f32
  %1 = neg %0
  store @2[i0, i1] = %1
}
map (i0 < 64, i1 < 64) {
  %0 = load @1[i0, i1] : f32
  %1 = abs %0
  store @3[i0, i1] = %1
}
)";
  const auto statements = [&](const TargetNumbers& target) {
    auto program = parsed(text);
    Ledger ledger;
    inline_producers(program, target, ledger);
    return program.statements.size();
  };
  TargetNumbers target;
  EXPECT_EQ(statements(target), 3u);
  target.operations = 2 * target.operations;
  EXPECT_EQ(statements(target), 2u);
}

}  // namespace
}  // namespace ferrite::core::schedule

namespace ferrite::core::runtime {
namespace {

TEST(Numbers, AreStatedOrHaveDefaults) {
  auto stated = abi::sized<fe_target_numbers>();
  SourcedNumbers numbers;
  ASSERT_TRUE(state(numbers, stated));
  EXPECT_EQ(numbers.values, TargetNumbers());
  EXPECT_EQ(name_of(numbers.sources[0]), "default");
  stated.workers = 108;
  stated.line_bytes = 32;
  stated.activations = FE_ACTIVATIONS_CHANNELS_LAST;
  stated.products = FE_PRODUCTS_SOFTMAX;
  stated.ordered_ns = 100;
  ASSERT_TRUE(state(numbers, stated));
  EXPECT_EQ(numbers.values.workers, 108);
  EXPECT_EQ(name_of(numbers.sources[0]), "stated");
  EXPECT_EQ(numbers.values.uncoalesced, 8);  // the f32 of a line
  EXPECT_EQ(numbers.values.pages, TargetNumbers().pages);
  EXPECT_EQ(numbers.values.activations, schedule::Activations::channels_last);
  const auto given = abi_numbers(numbers.values);
  EXPECT_EQ(given.workers, 108);
  EXPECT_EQ(given.bandwidth, TargetNumbers().bandwidth);
  EXPECT_EQ(given.activations, FE_ACTIVATIONS_CHANNELS_LAST);
  EXPECT_EQ(numbers.values.products, schedule::Products::softmax);
  EXPECT_EQ(given.products, FE_PRODUCTS_SOFTMAX);
  EXPECT_EQ(numbers.values.ordered_ns, 100);
  EXPECT_EQ(given.ordered_ns, 100);
}

TEST(Numbers, ChoicesAreStatedByNumber) {
  for (size_t k = 0; k < choice_table.size(); ++k) {
    const auto& choice = choice_table[k];
    for (uint32_t value = 0; value < choice.names.size(); ++value) {
      auto stated = abi::sized<fe_target_numbers>();
      stated.*choice.stated = value;
      SourcedNumbers numbers;
      ASSERT_TRUE(state(numbers, stated));
      EXPECT_EQ(choice.get(numbers.values), value);
      EXPECT_EQ(choice.name_in(numbers.values), choice.names[value]);
      EXPECT_EQ(name_of(numbers.choice_sources[k]), value == 0 ? "default" : "stated");
      EXPECT_EQ(abi_numbers(numbers.values).*choice.stated, value);
    }
  }
  TargetNumbers numbers;
  numbers.activations = schedule::Activations::channels_last;
  EXPECT_EQ(choice_table[0].name_in(numbers), "channels_last");
  numbers.products = schedule::Products::softmax;
  EXPECT_EQ(choice_table[1].name_in(numbers), "softmax");
}

TEST(Numbers, ThatCannotBeAreRefused) {
  for (const int64_t value : {int64_t{-1}, (int64_t{1} << 20) + 1}) {
    auto stated = abi::sized<fe_target_numbers>();
    stated.workers = value;
    SourcedNumbers numbers;
    const auto done = state(numbers, stated);
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, "FE-P69");
    EXPECT_EQ(numbers.values, TargetNumbers());
  }
  for (const auto& choice : choice_table) {
    auto stated = abi::sized<fe_target_numbers>();
    stated.workers = 3;
    stated.*choice.stated = static_cast<uint32_t>(choice.names.size());
    SourcedNumbers numbers;
    const auto done = state(numbers, stated);
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, "FE-P69");
    EXPECT_TRUE(done.error().text.starts_with(choice.name)) << done.error().text;
    EXPECT_EQ(numbers.values, TargetNumbers());
  }
}

TEST(Numbers, AreKeptByKindAndDescription) {
  const auto home = std::filesystem::path(testing::TempDir()) / "target_numbers_test";
  std::filesystem::remove_all(home);
  ASSERT_EQ(setenv("XDG_CACHE_HOME", home.c_str(), 1), 0);
  EXPECT_FALSE(load_measured("cpu", "one"));
  auto measured = abi::sized<fe_target_numbers>();
  measured.workers = 2;
  measured.uncoalesced = 5;
  measured.join_ns = 512;
  measured.near_bytes = 7;  // nothing measures it
  const auto path = save_measured("cpu", "one", measured);
  ASSERT_TRUE(path) << path.error().message();
  const auto found = load_measured("cpu", "one");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->workers, 2);
  EXPECT_EQ(found->uncoalesced, 5);
  EXPECT_EQ(found->join_ns, 512);
  EXPECT_EQ(found->launch_ns, 0);
  EXPECT_EQ(found->near_bytes, 0);
  EXPECT_FALSE(load_measured("cpu", "other"));
  EXPECT_FALSE(load_measured("npu", "one"));
  for (const char* damaged : {"", "{", "[]", R"({"workers": 0})", R"({"workers": -3})", R"({"workers": 1.5})",
                              R"({"uncoalesced": 18446744073709551615})", R"({"bandwidth": "9"})"}) {
    std::ofstream(*path) << damaged;
    EXPECT_FALSE(load_measured("cpu", "one")) << damaged;
  }
}

}  // namespace
}  // namespace ferrite::core::runtime
