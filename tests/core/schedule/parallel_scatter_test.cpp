// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Three kernels instead of a scatter that replaces leave the values that the scatter leaves, element by
// element.
#include "core/schedule/rewrites/parallel_scatter.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <span>

#include "core/ir/loop/interpreter.h"

namespace ferrite::core::schedule {
namespace {

constexpr int64_t rows = 16, columns = 7, updates = 640;

/// A copy of @0, into which the scatter stores updates @2 by indices @1, more than there are rows.
Schedule scattered(std::string_view loops, std::string_view body) {
  auto schedule = parse(fmt::format(R"(ferrite schedule 0
buffer @0 : f32[16, 7] input 0
buffer @1 : i64[640, 7] input 1
buffer @2 : f32[640, 7] input 2
buffer @3 : f32[16, 7] output 0
buffer @3.1
outputs @3.1
group 0 shared 2 {{
  map (i0 < 16, i1 < 7) {{
    %0 = load @0[i0, i1] : f32
    store @3[i0, i1] = %0
  }}
}}
group 1 shared 2 {{
  scatter ({}) from "put" (scatter_elements %0) {{
{}
  }}
}}
)",
                                    loops, body),
                        "scatter.fe");
  EXPECT_TRUE(schedule) << schedule.error().message();
  return schedule ? std::move(*schedule) : Schedule();
}

/// Of a target with launches so short that all pays.
TargetNumbers a_grid() {
  TargetNumbers target;
  target.launch_ns = 1;
  target.workers = 64;
  target.ordered_ns = 100;
  return target;
}

std::vector<float> result_of(const Schedule& schedule) {
  std::vector<float> base(rows * columns), values(updates * columns), out(rows * columns);
  std::vector<int64_t> at(updates * columns);
  for (size_t k = 0; k < base.size(); ++k) base[k] = -1 - static_cast<float>(k);
  for (size_t k = 0; k < values.size(); ++k) values[k] = static_cast<float>(k);
  // Some rows have many updates, from the front and from the end, the last one none.
  for (size_t k = 0; k < at.size(); ++k) {
    at[k] = static_cast<int64_t>(k * k % 15);
    if (k % 3 == 0) at[k] -= rows;
  }
  const ConstMemory inputs[] = {std::as_bytes(std::span(base)), std::as_bytes(std::span(at)),
                                std::as_bytes(std::span(values))};
  const Memory outputs[] = {std::as_writable_bytes(std::span(out))};
  const auto done = evaluate(schedule.program, inputs, outputs);
  EXPECT_TRUE(done) << done.error().message();
  return out;
}

/// The schedule as the target wants it, which gives the same and has so many groups.
Schedule at_once(Schedule schedule, size_t groups, const TargetNumbers& target = a_grid()) {
  const auto expected = result_of(schedule);
  Ledger ledger;
  parallel_scatter(schedule, target, MemoryLimit(), ledger);
  EXPECT_EQ(schedule.groups.size(), groups);
  EXPECT_EQ(ledger.records().size(), groups > 2 ? 1u : 0u);
  const auto verified = verify(schedule);
  EXPECT_TRUE(verified) << verified.error().message();
  EXPECT_EQ(result_of(schedule), expected);
  return schedule;
}

constexpr std::string_view both_loops = "i0 < 640, i1 < 7";
constexpr std::string_view by_element = R"(    %0 = load @1[i0, i1] : i64
    $1 = indirect %0 < 16 wrap
    %2 = load @2[i0, i1] : f32
    store @3.1[$1, i1] = %2)";

TEST(ParallelScatter, TheLastUpdateOfAnElementStays) {
  const auto schedule = at_once(scattered(both_loops, by_element), 4);
  const auto& statements = schedule.program.statements;
  EXPECT_EQ(statements[1].kind, uint32_t{FE_STATEMENT_MAP});
  EXPECT_EQ(statements[2].kind, uint32_t{FE_STATEMENT_SCATTER});
  EXPECT_EQ(statements[2].stores[0].mode, uint32_t{FE_STORE_MAX});
  EXPECT_EQ(statements[2].points(VarKind::parallel), updates * columns);
  EXPECT_EQ(statements[3].kind, uint32_t{FE_STATEMENT_MAP});
  EXPECT_EQ(statements[3].points(VarKind::parallel), rows * columns);
}

TEST(ParallelScatter, RowsHaveOneNumber) {
  const auto schedule = at_once(scattered(both_loops, R"(    %0 = load @1[i0, 0] : i64
    $1 = indirect %0 < 16 wrap
    %2 = load @2[i0, i1] : f32
    %3 = neg %2
    store @3.1[$1, i1] = %3)"),
                                4);
  const auto& program = schedule.program;
  EXPECT_EQ(program.statements[2].points(VarKind::parallel), updates);
  EXPECT_EQ(program.buffers[program.statements[2].stores[0].buffer].dims, std::vector<int64_t>{rows});
  EXPECT_EQ(program.buffers[program.statements[2].stores[0].buffer].dtype, DType::i32_);
}

TEST(ParallelScatter, LoopsMayEndBeforeTheDimAndStandInAnyOrder) {
  at_once(scattered("i0 < 640, i1 < 5", by_element), 4);
  at_once(scattered("i0 < 5, i1 < 640", R"(    %0 = load @1[i1, i0] : i64
    $1 = indirect %0 < 16 wrap
    %2 = load @2[i1, i0 + 1] : f32
    store @3.1[$1, i0 + 2] = %2)"),
          4);
}

TEST(ParallelScatter, BothCoordinatesMayBeComputed) {
  at_once(scattered(both_loops, R"(    %0 = load @1[i0, i1] : i64
    $1 = indirect %0 < 16 wrap
    $2 = indirect %0 < 7 clamp
    %3 = load @2[i0, i1] : f32
    store @3.1[$1, $2] = %3)"),
          4);
}

TEST(ParallelScatter, UpdatesThatAreMaskedDoNotCount) {
  at_once(scattered(both_loops, R"(    %0 = load @1[i0, i1] : i64
    $1 = indirect %0 < 16 wrap
    %2 = load @2[i0, i1] : f32
    %3 = index i0 : i64
    %4 = index 3*i1 + 500 : i64
    %5 = lt %3, %4
    store @3.1[$1, i1] = %2 where %5)"),
          4);
}

TEST(ParallelScatter, WhatNeedsTheOrderKeepsIt) {
  // An update of what is there.
  at_once(scattered(both_loops, R"(    %0 = load @1[i0, i1] : i64
    $1 = indirect %0 < 16 wrap
    %2 = load @2[i0, i1] : f32
    %3 = load @3[$1, i1] : f32
    %4 = add %2, %3
    store @3.1[$1, i1] = %4)"),
          2);
  // A value whose index may be out of range, which is an error even if a later update overwrites the value.
  at_once(scattered(both_loops, R"(    %0 = load @1[i0, i1] : i64
    $1 = indirect %0 < 16 wrap
    $2 = indirect %0 < 640 wrap
    %3 = load @2[$2, i1] : f32
    store @3.1[$1, i1] = %3)"),
          2);
  // One that combines is done at once anyway.
  at_once(scattered(both_loops, R"(    %0 = load @1[i0, i1] : i64
    $1 = indirect %0 < 16 wrap
    %2 = load @2[i0, i1] : f32
    store @3.1[$1, i1] max = %2)"),
          2);
}

TEST(ParallelScatter, OnlyWhereItPays) {
  auto target = a_grid();
  target.ordered_ns = 0;
  at_once(scattered(both_loops, by_element), 2, target);
  // 640 one after the other are 64 us.
  target.ordered_ns = 100;
  target.launch_ns = 30'000;
  at_once(scattered(both_loops, by_element), 4, target);
  target.launch_ns = 40'000;
  at_once(scattered(both_loops, by_element), 2, target);
  // Two updates are few for the elements that would have to be looked at.
  at_once(scattered("i0 < 2, i1 < 1", by_element), 2);
}

// Of a coordinate that is a sum, the variable whose step is longer than all that the others add.
TEST(ParallelScatter, PointsThatNeverMeetAreCounted) {
  auto schedule = scattered("i0 < 640, i1 < 3, i2 < 2", R"(    %0 = load @1[i0, 2*i1 + i2] : i64
    $1 = indirect %0 < 16 wrap
    %2 = load @2[i0, 2*i1 + i2] : f32
    store @3.1[$1, 2*i1 + i2] = %2)");
  at_once(schedule, 4);
  Ledger ledger;
  parallel_scatter(schedule, a_grid(), MemoryLimit(), ledger);
  ASSERT_EQ(ledger.records().size(), 1u);
  EXPECT_EQ(ledger.records()[0].text, "3840 points, of which 3 ran at a time");
}

}  // namespace
}  // namespace ferrite::core::schedule
