// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "core/ir/kernel/flatten.h"
#include "core/ir/loop/verify.h"
#include "driver/tune/decisions_lock.h"
#include "driver/tune/single_group.h"
#include "driver/tune/tune.h"
#include "tests/core/ir/loop_support.h"

namespace ferrite::core::tune {
namespace {

using select::Decision;
using select::DecisionKind;
using select::Decisions;
using select::Taken;

// Group 0 is made once, at load; 1 reads that and an input, keeps @3 to itself, and hands @4 on to group 2.
constexpr std::string_view three = R"(ferrite loops 0
buffer @0 : f32[24] constant 0 = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24
buffer @1 : f32[24] temporary
buffer @2 : f32[32, 24] input 0
buffer @3 : f32[32, 24] temporary
buffer @4 : f32[32, 1] temporary
buffer @5 : f32[32, 24] output 0
outputs @5
map (i0 < 24) {
  %0 = load @0[i0] : f32
  %1 = exp %0
  store @1[i0] = %1
}
map (i0 < 32, i1 < 24) {
  %0 = load @2[i0, i1] : f32
  %1 = load @1[i1] : f32
  %2 = mul %0, %1
  store @3[i0, i1] = %2
}
reduce (i0 < 32, reduce r0 < 24) {
  %0 = load @3[i0, r0] : f32
  reduction 0 = sum %0 : f32
  %1 = reduced 0 : f32
  store @4[i0, 0] = %1
}
map (i0 < 32, i1 < 24) {
  %0 = load @2[i0, i1] : f32
  %1 = load @4[i0, 0] : f32
  %2 = sub %0, %1
  store @5[i0, i1] = %2
}
)";

schedule::Schedule three_groups() {
  schedule::Schedule schedule;
  schedule.program = loop::test::parsed(three);
  schedule.groups = {{{0}, 1}, {{1, 2}, 1}, {{3}, 2}};
  return schedule;
}

TEST(Alone, AGroupKeepsItsKernel) {
  const auto schedule = three_groups();
  const auto constants = schedule::init_buffers(schedule, schedule::init_groups(schedule));
  ASSERT_EQ(constants.size(), 1u);
  for (size_t g : {1u, 2u}) {
    auto whole = schedule::KernelMaker(schedule).make(g);
    schedule::mark_constants(whole, constants);
    const auto single = alone(schedule, g, constants);
    ASSERT_EQ(single.groups.size(), 1u);
    EXPECT_TRUE(schedule::verify(single));
    const auto valid = loop::verify(single.program);
    EXPECT_TRUE(valid) << valid.error().message();
    const auto part = schedule::KernelMaker(single).make(0);
    const auto a = kernel::flatten(whole.kernel), b = kernel::flatten(part.kernel);
    ASSERT_TRUE(a && b);
    EXPECT_EQ(a->entry, b->entry) << "group " << g;
    EXPECT_EQ(schedule::init_groups(single), std::vector<bool>{false});
  }
  const auto first = alone(schedule, 1, constants);
  EXPECT_EQ(first.program.inputs, std::vector<schedule::BufferId>{2});
  EXPECT_EQ(first.program.outputs, std::vector<schedule::BufferId>{4});
  // What group 0 would make has contents of its own.
  EXPECT_EQ(first.program.buffers[1].role, schedule::Role::constant);
  EXPECT_EQ(first.program.constants.back().bytes, 24 * sizeof(float));
  EXPECT_NE(first.program.constants.back().data, nullptr);
}

TEST(Alone, FilledMemoryIsOrdinary) {
  std::vector<float> floats(5000);
  fill(f32, std::as_writable_bytes(std::span(floats)));
  for (const float value : floats) EXPECT_TRUE(std::isnormal(value) && std::fabs(value) <= 1) << value;
  EXPECT_NE(floats[0], floats[1]);
  std::vector<int64_t> integers(100, 7);
  fill(DType::i64_, std::as_writable_bytes(std::span(integers)));
  EXPECT_EQ(integers, std::vector<int64_t>(100, 0));
}

TEST(Decisions, WaysToTune) {
  Options options;
  EXPECT_TRUE(read_mode("off", options) && options.mode == Mode::off);
  EXPECT_TRUE(read_mode("cached", options) && options.mode == Mode::cached);
  EXPECT_TRUE(read_mode("0.5", options) && options.mode == Mode::measure && options.seconds == 0.5);
  for (const char* wrong : {"", "on", "0", "-1", "nan", "inf", "1e999", "5s", " 5"})
    EXPECT_FALSE(read_mode(wrong, options)) << wrong;
}

TEST(Decisions, AreKeptByAllThatTheyDependOn) {
  const auto folder = std::filesystem::path(testing::TempDir()) / "tune_test_decisions";
  std::filesystem::remove_all(folder);
  Options options;
  options.mode = Mode::measure;
  options.folder = folder.string();
  const auto open = [&](const std::string& context) {
    auto opened =
        open_decisions(options, [&] { return Decisions::Contexts{{"cpu", context}, {"other", ""}}; });
    EXPECT_TRUE(opened);
    return std::move(*opened);
  };
  auto decisions = open("a");
  const Decision decision{"cpu", "fast", 0, 2e-6, 1e-6, "usual", 3e-6, "measured"};
  decisions.set(DecisionKind::kernel, "cpu", "k_1", decision, true);
  decisions.set(DecisionKind::kernel, "cpu", "k_2", decision, false);
  decisions.set(DecisionKind::kernel, "other", "k_1", decision,
                true);  // of a device that cannot be told from others
  EXPECT_TRUE(decisions.find(DecisionKind::kernel, "cpu", "k_2"));
  auto again = open("a");
  const auto found = again.find(DecisionKind::kernel, "cpu", "k_1");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->by, "stored");
  EXPECT_EQ(found->candidate, "fast");
  EXPECT_EQ(found->usual_seconds, 3e-6);
  EXPECT_FALSE(again.find(DecisionKind::kernel, "cpu", "k_2"));
  EXPECT_FALSE(again.find(DecisionKind::library, "cpu", "k_1"));
  EXPECT_FALSE(again.find(DecisionKind::kernel, "other", "k_1"));
  EXPECT_FALSE(open("b").find(DecisionKind::kernel, "cpu", "k_1"));
  options.mode = Mode::off;
  EXPECT_FALSE(open("a").find(DecisionKind::kernel, "cpu", "k_1"));
}

TEST(Decisions, ALockSaysWhatWasTaken) {
  const auto path = (std::filesystem::path(testing::TempDir()) / "tune_test.decisions.lock").string();
  Decisions decisions;
  Taken taken{DecisionKind::kernel, "cpu", "k_1",
              "a \"node\"",         3,     {"cpu", "fast", 0, 2e-6, 0, {}, 0, "cost"}};
  decisions.took(taken);
  decisions.took(taken);  // a second device of the kind
  taken = {DecisionKind::library, "cpu", "k_2", "b", 2, {"lib", "gemm", 2, 4e-6, 5e-6, {}, 0, "measured"}};
  decisions.took(taken);
  ASSERT_TRUE(write_lock(path, decisions.taken(), {}));
  Options options;
  options.replay = path;
  auto locked = open_decisions(options, [] { return Decisions::Contexts(); });
  ASSERT_TRUE(locked) << locked.error().message();
  EXPECT_TRUE(locked->is_locked());
  const auto library = locked->find(DecisionKind::library, "cpu", "k_2");
  ASSERT_TRUE(library);
  EXPECT_EQ(library->covered, 2u);
  EXPECT_EQ(library->by, "locked");
  EXPECT_DOUBLE_EQ(library->seconds, 5e-6);
  EXPECT_FALSE(locked->find(DecisionKind::library, "cpu", "k_1"));
  // What the program does not have is an error, once all that it has is known.
  const auto unused = locked->check();
  ASSERT_FALSE(unused);
  EXPECT_EQ(unused.error().code, "FE-T43");
  for (const auto& each : decisions.taken()) locked->took(each);
  EXPECT_TRUE(locked->check());
}

}  // namespace
}  // namespace ferrite::core::tune
