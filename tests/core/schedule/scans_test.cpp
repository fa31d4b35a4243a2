// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The kernels of a divided running sum, product, minimum or maximum leave the values that the whole loop
// leaves.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "core/ir/loop/interpreter.h"
#include "core/ir/loop/verify.h"
#include "core/schedule/rewrites/split.h"

namespace ferrite::core::schedule {
namespace {

constexpr int64_t rows = 3;
// Of each row: parts of one length; parts that leave several steps; parts that leave one.
constexpr int64_t even = 1024, several_left = 1013, one_left = 1021;

/// A serial loop of so many steps over rows of @0 and @1 that stores to @2, which is of `dtype`, and to @3
/// where `results` is 2.
Schedule scanned(int64_t steps, std::string_view dtype, std::string_view body, int results = 1) {
  auto text = fmt::format(R"(ferrite schedule 0
buffer @0 : f32[3, $] input 0
buffer @1 : i32[3, $] input 1
buffer @2 : {}[3, $] output 0
{}outputs @2{}
group 0 shared 1 {{
  serial (i0 < 3, serial t0 < $) from "scan" (cumulative %0) {{
{}
  }}
}}
)",
                          dtype, results == 2 ? "buffer @3 : i32[3, $] output 1\n" : "",
                          results == 2 ? ", @3" : "", body);
  const auto count = std::to_string(steps);
  for (size_t at = 0; (at = text.find('$', at)) != std::string::npos;) text.replace(at, 1, count);
  auto schedule = parse(text, "scan.fe");
  EXPECT_TRUE(schedule) << schedule.error().message();
  return schedule ? std::move(*schedule) : Schedule();
}

/// One state, which is combined with elements of @0 or @1 by the primitive, and stored after that, or before
/// it where `exclusive`.
Schedule running(int64_t steps, std::string_view prim, std::string_view dtype, std::string_view init,
                 bool exclusive = false) {
  return scanned(steps, dtype,
                 fmt::format(R"(    %0 = carried 0 : {0}
    %1 = load @{1}[i0, t0] : {0}
    %2 = {2} %0, %1
    carry 0 = init {3} next %2 : {0}
    store @2[i0, t0] = %{4})",
                             dtype, dtype == "f32" ? 0 : 1, prim, init, exclusive ? 0 : 2));
}

/// Of a target with launches so short that division pays.
TargetNumbers idle_workers() {
  TargetNumbers target;
  target.launch_ns = 1;
  return target;
}

/// All outputs, one after the other. Inputs fall in the first row and rise in the last one, so that minima
/// and maxima change in all parts. Products of the floats stay finite, those of the odd integers are never 0.
std::vector<double> results_of(const Schedule& schedule) {
  const auto& program = schedule.program;
  const auto count = static_cast<size_t>(program.buffers[0].elements());
  const auto steps = static_cast<int64_t>(count) / rows;
  std::vector<float> floats(count);
  std::vector<int32_t> integers(count);
  for (size_t k = 0; k < count; ++k) {
    const auto at = static_cast<int64_t>(k);
    const int64_t slope = at / steps - 1, t = at % steps;
    floats[k] = 1 + 0.001F * static_cast<float>(at * 37 % 21 - 10) +
                0.02F * static_cast<float>(slope * t) / static_cast<float>(steps);
    integers[k] = static_cast<int32_t>(2 * (at * at % 17 + slope * t / 8) - 15);
  }
  const ConstMemory inputs[] = {std::as_bytes(std::span(floats)), std::as_bytes(std::span(integers))};
  // Each output has memory of its own, so that one that is stored to in another's place shows.
  std::vector<std::vector<float>> float_results(program.outputs.size(), std::vector<float>(count));
  std::vector<std::vector<int32_t>> integer_results(program.outputs.size(), std::vector<int32_t>(count));
  const auto of_floats = [&](size_t k) { return program.buffers[program.outputs[k]].dtype == DType::f32_; };
  std::vector<Memory> outputs;
  for (size_t k = 0; k < program.outputs.size(); ++k)
    outputs.push_back(of_floats(k) ? std::as_writable_bytes(std::span(float_results[k]))
                                   : std::as_writable_bytes(std::span(integer_results[k])));
  const auto done = evaluate(program, inputs, outputs);
  EXPECT_TRUE(done) << done.error().message();
  std::vector<double> results;
  for (size_t k = 0; k < program.outputs.size(); ++k) {
    if (of_floats(k))
      results.insert(results.end(), float_results[k].begin(), float_results[k].end());
    else
      results.insert(results.end(), integer_results[k].begin(), integer_results[k].end());
  }
  return results;
}

/// The schedule as the target wants it, which has so many groups and gives the same, up to `tolerance`: sums
/// and products of floats are rounded in another order.
Schedule divided(Schedule schedule, size_t groups, double tolerance = 0) {
  const size_t before = schedule.groups.size();
  const auto expected = results_of(schedule);
  Ledger ledger;
  split_scans(schedule, idle_workers(), MemoryLimit(), ledger);
  EXPECT_EQ(schedule.groups.size(), groups) << print(schedule);
  EXPECT_EQ(schedule.program.statements.size(), groups);
  EXPECT_EQ(ledger.records().size(), groups > before ? 1u : 0u);
  const auto ordered = verify(schedule);
  EXPECT_TRUE(ordered) << ordered.error().message();
  const auto formed = loop::verify(schedule.program);
  EXPECT_TRUE(formed) << formed.error().message();
  const auto results = results_of(schedule);
  EXPECT_EQ(results.size(), expected.size());
  size_t wrong = 0;
  for (size_t k = 0; k < std::min(results.size(), expected.size()); ++k)
    if (!(std::abs(results[k] - expected[k]) <= tolerance * std::max(1.0, std::abs(expected[k]))) &&
        wrong++ == 0)
      ADD_FAILURE() << "element " << k << ": " << results[k] << ", not " << expected[k];
  EXPECT_EQ(wrong, 0u) << print(schedule);
  return schedule;
}

constexpr double rounding = 1e-5;

TEST(Scans, TotalsThenStartsThenAllPartsAtOnce) {
  const auto schedule = divided(running(even, "add", "i32", "7"), 3);
  const auto& statements = schedule.program.statements;
  ASSERT_EQ(statements.size(), 3u);
  EXPECT_EQ(statements[0].kind, uint32_t{FE_STATEMENT_REDUCE});
  EXPECT_EQ(statements[0].points(VarKind::parallel), 16 * rows);
  EXPECT_EQ(statements[0].points(VarKind::reduction), even / 16);
  EXPECT_EQ(statements[1].kind, uint32_t{FE_STATEMENT_SERIAL});
  EXPECT_EQ(statements[1].points(VarKind::serial), 16);
  EXPECT_EQ(statements[2].kind, uint32_t{FE_STATEMENT_SERIAL});
  EXPECT_EQ(statements[2].points(VarKind::parallel), 16 * rows);
  EXPECT_EQ(statements[2].points(VarKind::serial), even / 16);
}

TEST(Scans, SumsProductsMinimaAndMaxima) {
  struct Case {
    std::string_view prim, dtype, init;
    double tolerance;
  };
  const Case cases[] = {
      {"add", "i32", "7", 0},
      {"mul", "i32", "3", 0},
      {"min", "i32", "-9", 0},
      {"max", "i32", "9", 0},
      {"add", "f32", "100.0", rounding},
      {"mul", "f32", "3.0", rounding},
      {"min", "f32", "0.9921875", 0},
      {"max", "f32", "1.0078125", 0},
  };
  for (const auto& [prim, dtype, init, tolerance] : cases)
    for (const bool exclusive : {false, true}) {
      SCOPED_TRACE(fmt::format("{} of {}{}", prim, dtype, exclusive ? ", exclusive" : ""));
      divided(running(even, prim, dtype, init, exclusive), 3, tolerance);
      divided(running(several_left, prim, dtype, init, exclusive), 4, tolerance);
      divided(running(one_left, prim, dtype, init, exclusive), 4, tolerance);
    }
}

TEST(Scans, WhatIsLeftIsAStatementBehindTheParts) {
  const auto several = divided(running(several_left, "max", "i32", "9"), 4);
  ASSERT_EQ(several.program.statements.size(), 4u);
  EXPECT_EQ(several.program.statements[3].kind, uint32_t{FE_STATEMENT_SERIAL});
  EXPECT_EQ(several.program.statements[3].points(VarKind::serial), several_left % 15);
  // One step carries nothing on.
  const auto one = divided(running(one_left, "max", "i32", "9"), 4);
  ASSERT_EQ(one.program.statements.size(), 4u);
  EXPECT_EQ(one.program.statements[3].kind, uint32_t{FE_STATEMENT_MAP});
}

TEST(Scans, LoopsMayGoBackwards) {
  const auto backwards = [](int64_t steps) {
    return scanned(steps, "f32",
                   fmt::format(R"(    %0 = carried 0 : f32
    %1 = load @0[i0, {0} - t0] : f32
    %2 = min %1, %0
    carry 0 = init 2.0 next %2 : f32
    store @2[i0, {0} - t0] = %2)",
                               steps - 1));
  };
  divided(backwards(even), 3);
  divided(backwards(several_left), 4);
}

// States of both inputs and two stores, of which one needs two states: one before the step and one behind it.
constexpr std::string_view three_states = R"(    %0 = carried 0 : f32
    %1 = carried 1 : i32
    %2 = carried 2 : f32
    %3 = load @0[i0, t0] : f32
    %4 = load @1[i0, t0] : i32
    %5 = max %0, %3
    %6 = add %4, %1
    %7 = mul %3, %2
    %8 = sub %5, %2
    carry 0 = init 0.0 next %5 : f32
    carry 1 = init 7 next %6 : i32
    carry 2 = init 1.0 next %7 : f32
    store @2[i0, t0] = %8
    store @3[i0, t0] = %6)";

TEST(Scans, SeveralStatesHaveTotalsInOneStatement) {
  const auto schedule = divided(scanned(even, "f32", three_states, 2), 3, rounding);
  ASSERT_EQ(schedule.program.statements.size(), 3u);
  EXPECT_EQ(schedule.program.statements[0].reductions.size(), 3u);
  EXPECT_EQ(schedule.program.statements[1].carries.size(), 3u);
  EXPECT_EQ(schedule.program.statements[2].carries.size(), 3u);
  divided(scanned(several_left, "f32", three_states, 2), 4, rounding);
  divided(scanned(one_left, "f32", three_states, 2), 4, rounding);
}

TEST(Scans, WhatIsNoRunningStateStaysWhole) {
  divided(running(even, "sub", "i32", "7"), 1);
  // Associative, but no reduction does it.
  divided(running(even, "xor", "i32", "7"), 1);
  // The value that is added depends on the one that was carried.
  divided(scanned(even, "i32", R"(    %0 = carried 0 : i32
    %1 = load @1[i0, t0] : i32
    %2 = mul %0, %1
    %3 = add %0, %2
    carry 0 = init 7 next %3 : i32
    store @2[i0, t0] = %3)"),
          1);
  // Each step stores to the element of the step before it.
  divided(scanned(even, "i32", R"(    %0 = carried 0 : i32
    %1 = load @1[i0, t0] : i32
    %2 = add %0, %1
    carry 0 = init 7 next %2 : i32
    store @2[i0, 5] = %2)"),
          1);
}

TEST(Scans, OnlyWhereItPays) {
  auto schedule = running(even, "add", "i32", "7");
  Ledger ledger;
  split_scans(schedule, TargetNumbers(), MemoryLimit(), ledger);
  EXPECT_EQ(schedule.groups.size(), 1u);
  auto few_workers = idle_workers();
  few_workers.workers = rows;
  split_scans(schedule, few_workers, MemoryLimit(), ledger);
  EXPECT_EQ(schedule.groups.size(), 1u);
  EXPECT_TRUE(ledger.records().empty());
}

/// Behind a group that stores to the same buffer.
Schedule changing(int64_t steps) {
  auto schedule = parse(fmt::format(R"(ferrite schedule 0
buffer @0 : f32[3, {0}] input 0
buffer @1 : i32[3, {0}] input 1
buffer @2 : i32[3, {0}] output 0
buffer @2.1
outputs @2.1
group 0 shared 2 {{
  map (i0 < 3, i1 < {0}) from "base" (neg %0) {{
    %0 = load @1[i0, i1] : i32
    %1 = neg %0
    store @2[i0, i1] = %1
  }}
}}
group 1 shared 1 {{
  serial (i0 < 2, serial t0 < {0}) from "scan" (cumulative %1) {{
    %0 = carried 0 : i32
    %1 = load @1[i0, t0] : i32
    %2 = max %0, %1
    carry 0 = init 7 next %2 : i32
    store @2.1[i0 + 1, t0] = %2
  }}
}}
)",
                                    steps),
                        "scan.fe");
  EXPECT_TRUE(schedule) << schedule.error().message();
  return schedule ? std::move(*schedule) : Schedule();
}

TEST(Scans, WhatOthersStoreToIsDividedWithoutARest) {
  divided(changing(even), 4);
  auto schedule = changing(several_left);
  const auto whole = print(schedule);
  Ledger ledger;
  split_scans(schedule, idle_workers(), MemoryLimit(), ledger);
  EXPECT_EQ(print(schedule), whole);
  ASSERT_EQ(ledger.records().size(), 1u);
  const auto record = ledger.records()[0];
  EXPECT_EQ(record.kind, "parts");
  EXPECT_EQ(record.subject, "scan");
  EXPECT_EQ(record.outcome, "not divided");
  EXPECT_EQ(record.category, "several writers");
  EXPECT_EQ(record.text, "15 parts of 67 would leave a rest of 8 that stores where others do");
}

}  // namespace
}  // namespace ferrite::core::schedule
