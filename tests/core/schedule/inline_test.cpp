// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How large a body inlining makes at most, and which views it leaves stored.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "core/ir/loop/index_size.h"
#include "core/schedule/group_kernel.h"
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

/// A product of a [64, 32] matrix, which is a view of a transposed [4, 2, 16, 16] input, and `columns`
/// columns.
LoopProgram product_of_transposed(int columns) {
  auto program = loop::test::parsed(fmt::format(R"(ferrite loops 0
buffer @0 : f32[4, 2, 16, 16] input 0
buffer @1 : f32[32, {0}] input 1
buffer @2 : f32[4, 16, 2, 16] temporary
buffer @3 : f32[64, 32] temporary
buffer @4 : f32[64, {0}] output 0
outputs @4
map (i0 < 4, i1 < 16, i2 < 2, i3 < 16) {{
  %0 = load @0[i0, i2, i1, i3] : f32
  store @2[i0, i1, i2, i3] = %0
}}
map (i0 < 64, i1 < 32) {{
  %0 = load @2[i0 div 16, i0 mod 16, i1 div 16, i1 mod 16] : f32
  store @3[i0, i1] = %0
}}
contract gemm (i0 < 64, i1 < {0}, reduce r0 < 32) of %0, %1 {{
  %0 = load @3[i0, r0] : f32
  %1 = load @1[r0, i1] : f32
  %2 = mul %0, %1
  reduction 0 = sum %2 : f32
  %3 = reduced 0 : f32
  store @4[i0, i1] = %3
}}
)",
                                                columns));
  Ledger ledger;
  inline_producers(program, {}, ledger);
  return program;
}

TEST(Inline, StoresAnOperandThatAViewScatters) {
  // The reshaped view keeps the operand's address linear, and the transposed one does not.
  const auto program = product_of_transposed(16);
  ASSERT_EQ(program.statements.size(), 2u);
  EXPECT_EQ(program.statements[1].ops[0].buffer, 2u);
  // Few columns: storing the operand costs more than reading it where it lies.
  EXPECT_EQ(product_of_transposed(8).statements.size(), 1u);
}

TEST(Inline, KernelsJoinTheDimsThatAViewSplits) {
  const auto program = product_of_transposed(16);
  const auto kernel = kernel_of(program, 1).kernel;
  ASSERT_EQ(kernel.buffers.size(), 3u);
  EXPECT_EQ(kernel.buffers[0].dims, (std::vector<int64_t>{64, 32}));
  EXPECT_EQ(kernel.buffers[0].strides, (std::vector<int64_t>{32, 1}));
  const auto& index = kernel.statements[0].ops[0].index;
  ASSERT_EQ(index.size(), 2u);
  EXPECT_TRUE(kernel.pool.as_symbol(index[0]));
  EXPECT_TRUE(kernel.pool.as_symbol(index[1]));
  // Where nothing was split, the dims stay: those of the map that transposes.
  EXPECT_EQ(kernel_of(program, 0).kernel.buffers[0].dims, (std::vector<int64_t>{4, 2, 16, 16}));
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
