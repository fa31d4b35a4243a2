// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/schedule/rewrites/padding.h"

#include <gtest/gtest.h>

#include <cstring>

#include "core/ir/loop/interpreter.h"
#include "core/ir/loop/verify.h"

namespace ferrite::core::schedule {
namespace {

constexpr RowPadding requested{.alignment = 128, .most_percent = 5, .least_bytes = 0};

Schedule parsed(const std::string& text) {
  auto schedule = parse(text, "padding.fe");
  EXPECT_TRUE(schedule) << schedule.error().message();
  return schedule ? std::move(*schedule) : Schedule();
}

/// A buffer of this type between a group that writes it and one that reads it.
std::string between(const std::string& type, const std::string& attributes = "temporary") {
  const auto dtype = type.substr(0, type.find('['));
  std::string vars, index;
  size_t number = 0;
  for (size_t at = type.find('['); at + 1 < type.size();) {
    const size_t end = type.find_first_of(",]", at + 1);
    const auto dim = type.substr(at + 1, end - at - 1);
    const auto comma = number == 0 ? "" : ", ";
    vars += comma + ("i" + std::to_string(number) + " < " + dim);
    index += comma + ("i" + std::to_string(number++));
    at = end;
  }
  std::string text = "ferrite schedule 0\nbuffer @0 : " + type + " input 0\nbuffer @1 : " + type + " " +
                     attributes + "\nbuffer @2 : " + type + " output 0\noutputs @2\n";
  for (int group = 0; group < 2; ++group) {
    text += "group " + std::to_string(group) + " shared 0 {\n  map (" + vars + ") from \"n" +
            std::to_string(group) + "\" (neg %" + std::to_string(group) + ") {\n    %0 = load @" +
            std::to_string(group) + "[" + index + "] : " + dtype + "\n    %1 = neg %0\n    store @" +
            std::to_string(group + 1) + "[" + index + "] = %1\n  }\n}\n";
  }
  return text;
}

using Strides = std::vector<int64_t>;

Strides padded(const std::string& type, const RowPadding& padding = requested,
               const std::string& attributes = "temporary") {
  auto schedule = parsed(between(type, attributes));
  Ledger ledger;
  pad_rows(schedule, padding, MemoryLimit(), ledger);
  EXPECT_TRUE(loop::verify(schedule.program));
  return schedule.program.buffers.size() > 1 ? schedule.program.buffers[1].strides : Strides();
}

TEST(Padding, RowsLieMultiplesOfTheAlignmentApart) {
  EXPECT_EQ(padded("f32[4,30523]"), (Strides{30528, 1}));
  EXPECT_EQ(padded("f32[2,16,2047]"), (Strides{32768, 2048, 1}));
  EXPECT_EQ(padded("f64[4,1001]"), (Strides{1008, 1}));
  EXPECT_EQ(padded("bf16[4,3001]"), (Strides{3008, 1}));
  EXPECT_EQ(padded("i8[4,3001]"), (Strides{3072, 1}));
  EXPECT_EQ(padded("f32[4,2048]"), (Strides{2048, 1}));
  const RowPadding wide{.alignment = 4096, .most_percent = 5, .least_bytes = 0};
  EXPECT_EQ(padded("f32[4,30523]", wide), (Strides{30720, 1}));
}

TEST(Padding, DimsOfOneElementAreNoRows) {
  EXPECT_EQ(padded("f32[1,30523]"), (Strides{30523, 1}));
  EXPECT_EQ(padded("f32[30523,1]"), (Strides{1, 1}));
  EXPECT_EQ(padded("f32[3,1,30523,1]"), (Strides{30528, 30528, 1, 1}));
  EXPECT_EQ(padded("f32[3,0]"), (Strides{1, 1}));
}

TEST(Padding, TheTargetsNumbersHold) {
  const auto with = [](int64_t percent, int64_t bytes) {
    return RowPadding{.alignment = 128, .most_percent = percent, .least_bytes = bytes};
  };
  EXPECT_EQ(padded("f32[4,33]", with(93, 0)), (Strides{33, 1}));  // 31 of 33 are 93.9 percent
  EXPECT_EQ(padded("f32[4,33]", with(94, 0)), (Strides{64, 1}));
  EXPECT_EQ(padded("f32[4,33]", with(94, 4 * 4 * 33)), (Strides{64, 1}));
  EXPECT_EQ(padded("f32[4,33]", with(94, 4 * 4 * 33 + 1)), (Strides{33, 1}));
  EXPECT_EQ(padded("f32[4,30523]", RowPadding()), (Strides{30523, 1}));
}

TEST(Padding, WhatHasStridesOfItsOwnKeepsThem) {
  EXPECT_EQ(padded("f32[4,30523]", requested, "temporary strides [30600, 1]"), (Strides{30600, 1}));
  EXPECT_EQ(padded("f32[4,30523]", requested, "temporary channels_last"), (Strides{30523, 1}));
}

// A buffer too large for its padding: the limit of all buffers is 2^56 elements.
TEST(Padding, NoBufferBecomesTooLarge) {
  EXPECT_EQ(padded("i8[562949953421312,127]", {.alignment = 128, .most_percent = 5, .least_bytes = 0}),
            (Strides{128, 1}));
  EXPECT_EQ(padded("i8[567382630219904,127]", {.alignment = 128, .most_percent = 5, .least_bytes = 0}),
            (Strides{127, 1}));
}

// Versions, sums, a scatter, an opaque kernel, a view across rows, what stays in its kernel.
constexpr std::string_view many = R"(ferrite schedule 0
buffer @0 : f32[4, 40] input 0 "x"
buffer @1 : f32[4, 40] temporary
buffer @1.1
buffer @3 : f32[4, 40] temporary
buffer @4 : f32[40, 4] temporary
buffer @5 : f32[4, 40] output 0
buffer @6 : f32[4, 40] temporary
buffer @7 : f32[4, 40] temporary
buffer @8 : f32[4] output 1
outputs @5, @8, @7
group 0 shared 0 {
  map (i0 < 4, i1 < 40) from "first" (neg %0) {
    %0 = load @0[i0, i1] : f32
    %1 = neg %0
    store @1[i0, i1] = %1
  }
}
group 1 shared 0 {
  map (i0 < 4, i1 < 7) from "set" (neg %1) {
    %0 = load @0[i0, 2*i1] : f32
    store @1.1[i0, 3*i1 + 1] = %0
  }
}
group 2 shared 1 {
  map (i0 < 4, i1 < 40) from "local" (neg %2) {
    %0 = load @1.1[i0, i1] : f32
    store @3[i0, i1] = %0
  }
  reduce (i0 < 4, reduce r0 < 40) from "sum" (neg %3) {
    %0 = load @3[i0, r0] : f32
    reduction 0 = sum %0 : f32
    %1 = reduced 0 : f32
    store @8[i0] = %1
  }
}
group 3 shared 0 {
  map (i0 < 4, i1 < 40) from "viewed" (neg %4) {
    %0 = load @1.1[i0, i1] : f32
    store @4[10*i0 + i1 div 4, i1 mod 4] = %0
  }
}
group 4 shared 0 {
  map (i0 < 40, i1 < 4) from "shown" (neg %5) {
    %0 = load @4[i0, i1] : f32
    store @7[i0 div 10, 4*(i0 mod 10) + i1] = %0
  }
}
group 5 shared 0 {
  map (i0 < 4, i1 < 40) from "out" (neg %6) {
    %0 = load @1.1[i0, 39 - i1] : f32
    store @6[i0, i1] = %0
  }
}
group 6 shared 0 {
  map (i0 < 4, i1 < 40) from "out" (neg %7) {
    %0 = load @6[3 - i0, i1] : f32
    %1 = load @1.1[i0, i1] : f32
    %2 = add %0, %1
    store @5[i0, i1] = %2
  }
}
)";
constexpr RowPadding all{.alignment = 128, .most_percent = 10000, .least_bytes = 0};

TEST(Padding, EachRowThatLiesElsewhereIsARecordWithItsReason) {
  auto schedule = parsed(std::string(many));
  Ledger ledger;
  pad_rows(schedule, all, MemoryLimit(), ledger);
  EXPECT_TRUE(loop::verify(schedule.program));
  const auto& buffers = schedule.program.buffers;
  EXPECT_EQ(buffers[1].strides, (Strides{64, 1}));
  EXPECT_EQ(buffers[2].strides, (Strides{64, 1}));  // the version
  EXPECT_EQ(buffers[6].strides, (Strides{64, 1}));
  std::string records;
  for (const auto& record : ledger.records())
    records += fmt::format("{} {} {} {} ({}): {} [{}]\n", record.kind, record.subject, record.object,
                           record.outcome, record.category, record.text, record.score);
  EXPECT_EQ(
      records,
      "layout x f32x4x40 not padded (input): strides [40, 1]: an input has the layout of its caller [0]\n"
      "layout first f32x4x40 padded (): strides [40, 1] -> [64, 1]: rows are multiples of 128 bytes apart "
      "[288]\n"
      "layout local f32x4x40 not padded (local): strides [40, 1]: it does not leave its kernel [0]\n"
      "layout viewed f32x40x4 not padded (view): strides [4, 1]: it is addressed by more than sums of loop "
      "variables [0]\n"
      "layout out f32x4x40 not padded (output): strides [40, 1]: an output has the layout of its caller [0]\n"
      "layout out f32x4x40 padded (): strides [40, 1] -> [64, 1]: rows are multiples of 128 bytes apart "
      "[288]\n"
      "layout shown f32x4x40 not padded (output): strides [40, 1]: an output has the layout of its caller "
      "[0]\n");
  const auto once = print(schedule);
  Ledger again;
  pad_rows(schedule, all, MemoryLimit(), again);
  EXPECT_EQ(print(schedule), once);
}

TEST(Padding, OpaqueKernelsGetContiguousElements) {
  auto schedule = parsed(R"(ferrite schedule 0
buffer @0 : f32[4, 40] input 0
buffer @1 : f32[4, 40] temporary
buffer @2 : f32[4, 40] output 0
outputs @2
group 0 shared 0 {
  map (i0 < 4, i1 < 40) from "first" (neg %0) {
    %0 = load @0[i0, i1] : f32
    store @1[i0, i1] = %0
  }
}
group 1 shared 0 {
  call "acme.kernel" reads (@1) writes (@2)
}
)");
  Ledger ledger;
  pad_rows(schedule, all, MemoryLimit(), ledger);
  EXPECT_EQ(schedule.program.buffers[1].strides, (Strides{40, 1}));
  const auto records = ledger.records();
  ASSERT_EQ(records.size(), 3u);
  EXPECT_EQ(records[1].category, "opaque");
}

TEST(Padding, ConstantsAreLaidOutOnce) {
  auto schedule = parsed(R"(ferrite schedule 0
buffer @0 : f32[4, 3] constant 0 = 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0
buffer @1 : f32[4, 3] temporary
buffer @2 : f32[4, 3] output 0
outputs @2
group 0 shared 0 {
  map (i0 < 4, i1 < 3) from "first" (neg %0) {
    %0 = load @0[i0, i1] : f32
    store @1[i0, i1] = %0
  }
}
group 1 shared 0 {
  map (i0 < 4, i1 < 3) from "second" (neg %1) {
    %0 = load @1[i0, i1] : f32
    store @2[i0, i1] = %0
  }
}
)");
  Ledger ledger;
  pad_rows(schedule, all, MemoryLimit(), ledger);
  const auto records = ledger.records();
  ASSERT_EQ(records.size(), 3u);
  EXPECT_EQ(records[0].category, "constant");
  EXPECT_EQ(records[1].category, "constant");
}

/// The outputs of a schedule whose memory holds NaN before it runs; of a temporary that is an output too.
std::vector<std::vector<std::byte>> run(const Schedule& schedule) {
  const auto& program = schedule.program;
  std::vector<std::vector<std::byte>> owned;
  for (BufferId b = 0; b < program.buffers.size(); ++b)
    owned.emplace_back(program.buffers[b].base == none ? static_cast<size_t>(program.buffers[b].bytes()) : 0,
                       std::byte{0xff});
  for (size_t k = 0; k < 160; ++k) {
    const float value = static_cast<float>(k) - 60;
    std::memcpy(owned[0].data() + k * sizeof value, &value, sizeof value);
  }
  std::vector<loop::Memory> memory(owned.begin(), owned.end());
  const auto done = loop::evaluate(list_of(program), memory);
  EXPECT_TRUE(done) << done.error().message();
  std::vector<std::vector<std::byte>> outputs;
  for (BufferId b : program.outputs) outputs.push_back(owned[program.storage(b)]);
  return outputs;
}

TEST(Padding, WhatLiesBetweenRowsIsNotRead) {
  auto schedule = parsed(std::string(many));
  const auto expected = run(schedule);
  Ledger ledger;
  pad_rows(schedule, all, MemoryLimit(), ledger);
  EXPECT_EQ(run(schedule), expected);
  float first = 0;
  std::memcpy(&first, expected[0].data(), sizeof first);
  EXPECT_EQ(first, first);  // no NaN was written either
}

}  // namespace
}  // namespace ferrite::core::schedule
