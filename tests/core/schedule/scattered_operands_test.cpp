// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Operands and buffers that are read through reshaped and transposed views.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "core/schedule/group_kernel.h"
#include "core/schedule/rewrites/scattered_operands.h"
#include "tests/core/ir/loop_support.h"

namespace ferrite::core::schedule {
namespace {

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
  store_scattered_operands(program, {}, ledger);
  return program;
}

TEST(ScatteredOperands, AreStored) {
  const auto program = product_of_transposed(16);
  ASSERT_EQ(program.statements.size(), 2u);
  const auto& copy = program.buffers[program.statements[0].stores[0].buffer];
  EXPECT_EQ(copy.dims, (std::vector<int64_t>{64, 32}));
  EXPECT_EQ(&program.buffers[program.statements[1].ops[0].buffer], &copy);
  // Few columns: storing the operand costs more than reading it where it lies.
  EXPECT_EQ(product_of_transposed(8).statements.size(), 1u);
}

TEST(ScatteredOperands, AreSharedByProducts) {
  // The second product reads the same elements, transposed.
  auto program = loop::test::parsed(R"(ferrite loops 0
buffer @0 : f32[4, 2, 16, 16] input 0
buffer @1 : f32[32, 16] input 1
buffer @2 : f32[64, 64] input 2
buffer @3 : f32[64, 16] output 0
buffer @4 : f32[32, 64] output 1
outputs @3, @4
contract gemm (i0 < 64, i1 < 16, reduce r0 < 32) of %0, %1 {
  %0 = load @0[i0 div 16, r0 div 16, i0 mod 16, r0 mod 16] : f32
  %1 = load @1[r0, i1] : f32
  %2 = mul %0, %1
  reduction 0 = sum %2 : f32
  %3 = reduced 0 : f32
  store @3[i0, i1] = %3
}
contract gemm (i0 < 32, i1 < 64, reduce r0 < 64) of %0, %1 {
  %0 = load @0[r0 div 16, i0 div 16, r0 mod 16, i0 mod 16] : f32
  %1 = load @2[r0, i1] : f32
  %2 = mul %0, %1
  reduction 0 = sum %2 : f32
  %3 = reduced 0 : f32
  store @4[i0, i1] = %3
}
)");
  Ledger ledger;
  store_scattered_operands(program, {}, ledger);
  ASSERT_EQ(program.statements.size(), 3u);
  const auto copy = program.statements[0].stores[0].buffer;
  EXPECT_EQ(program.statements[1].ops[0].buffer, copy);
  EXPECT_EQ(program.statements[2].ops[0].buffer, copy);
  EXPECT_EQ(ledger.records().size(), 1u);
}

TEST(KernelBuffers, JoinTheDimsThatAnIndexSplits) {
  const auto program = loop::test::parsed(R"(ferrite loops 0
buffer @0 : f32[4, 16, 2, 16] input 0
buffer @1 : f32[64, 32] output 0
buffer @2 : f32[4, 16, 2, 16] output 1
outputs @1, @2
map (i0 < 64, i1 < 32) {
  %0 = load @0[i0 div 16, i0 mod 16, i1 div 16, i1 mod 16] : f32
  store @1[i0, i1] = %0
}
map (i0 < 4, i1 < 16, i2 < 2, i3 < 16) {
  %0 = load @0[i0, i1, i2, i3] : f32
  store @2[i0, i1, i2, i3] = %0
}
)");
  const auto kernel = kernel_of(program, 0).kernel;
  ASSERT_EQ(kernel.buffers.size(), 2u);
  EXPECT_EQ(kernel.buffers[0].dims, (std::vector<int64_t>{64, 32}));
  EXPECT_EQ(kernel.buffers[0].strides, (std::vector<int64_t>{32, 1}));
  const auto& index = kernel.statements[0].ops[0].index;
  ASSERT_EQ(index.size(), 2u);
  EXPECT_TRUE(kernel.pool.as_symbol(index[0]));
  EXPECT_TRUE(kernel.pool.as_symbol(index[1]));
  // Where nothing was split, the dims stay.
  EXPECT_EQ(kernel_of(program, 1).kernel.buffers[0].dims, (std::vector<int64_t>{4, 16, 2, 16}));
}

}  // namespace
}  // namespace ferrite::core::schedule
