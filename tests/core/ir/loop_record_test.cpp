// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The recorder: what it records, what it makes canonical, what it refuses.
#include <bit>

#include "tests/core/ir/loop_support.h"

namespace ferrite::core::loop::test {
namespace {

TEST(Recorder, RecordsAMap) {
  Recording r;
  r.buffer(Role::input, f32, {8, 128});
  r.buffer(Role::output, f32, {8, 128});
  r.bind();
  auto i = r.begin({8, 128});
  r.store(2, i, r.prim(Prim::max_, r.load(1, i), r.constant(0.0f)));
  EXPECT_EQ(r.end(), FE_OK);
  r.finish();
  ASSERT_EQ(r.program.statements.size(), 1u);
  const auto& s = r.program.statements[0];
  EXPECT_EQ(s.kind, FE_STATEMENT_MAP);
  EXPECT_EQ(s.vars.size(), 2u);
  EXPECT_EQ(s.ops.size(), 3u);
  EXPECT_EQ(s.origins, (std::vector<Origin>{{7, "sample", "Sample_7"}}));
}

TEST(Recorder, DropsVariablesOfSizeOneAndDeadOperations) {
  Recording r;
  r.buffer(Role::input, f32, {1, 4, 1});
  r.buffer(Role::output, f32, {1, 4, 1});
  r.bind();
  auto i = r.begin({1, 4, 1});
  auto x = r.load(1, i);
  r.prim(Prim::exp_, x);
  auto y = r.prim(Prim::neg_, x);
  EXPECT_EQ(y, r.prim(Prim::neg_, x));
  r.store(2, i, y);
  EXPECT_EQ(r.end(), FE_OK);
  r.finish();
  EXPECT_EQ(r.program.statements[0].vars.size(), 1u);
  EXPECT_EQ(r.program.statements[0].ops.size(), 2u);
  EXPECT_EQ(r.run<float>(std::vector<float>{1, -2, 3, -4}), (std::vector<float>{-1, 2, -3, 4}));
}

TEST(Recorder, ReductionOverOnePointIsItsElement) {
  Recording r;
  r.buffer(Role::input, f32, {4, 1});
  r.buffer(Role::output, f32, {4});
  r.bind();
  auto i = r.begin({4}, {1});
  r.store(2, {i[0]}, r.reduce(FE_REDUCE_SUM, r.load(1, i)));
  EXPECT_EQ(r.end(), FE_OK);
  r.finish();
  EXPECT_EQ(r.program.statements[0].kind, FE_STATEMENT_MAP);
  EXPECT_TRUE(r.program.statements[0].reductions.empty());
  EXPECT_EQ(r.run<float>(std::vector<float>{1, 2, 3, 4}), (std::vector<float>{1, 2, 3, 4}));
}

TEST(Recorder, ReductionOverNothingIsItsIdentity) {
  for (auto [kind, expected] : {std::pair{FE_REDUCE_SUM, 0.0f},
                                {FE_REDUCE_PROD, 1.0f},
                                {FE_REDUCE_MAX, -INFINITY},
                                {FE_REDUCE_MIN, INFINITY}}) {
    Recording r;
    r.buffer(Role::input, f32, {3, 0});
    r.buffer(Role::output, f32, {3});
    r.bind();
    auto i = r.begin({3}, {0});
    r.store(2, {i[0]}, r.reduce(kind, r.load(1, i)));
    EXPECT_EQ(r.end(), FE_OK) << r.text;
    r.finish();
    EXPECT_EQ(r.run<float>(std::vector<float>{}), (std::vector<float>(3, expected)));
  }
}

TEST(Recorder, StatementWithoutPointsIsDropped) {
  Recording r;
  r.buffer(Role::input, f32, {0, 4});
  r.buffer(Role::output, f32, {0, 4});
  r.bind();
  auto i = r.begin({0, 4});
  r.store(2, i, r.load(1, i));
  EXPECT_EQ(r.end(), FE_OK);
  r.finish();
  EXPECT_TRUE(r.program.statements.empty());
}

TEST(Recorder, StoreAtEachOfNoPointsMakesNoVersion) {
  Recording r;
  r.buffer(Role::input, f32, {3, 0});
  r.buffer(Role::output, f32, {3});
  r.buffer(Role::output, f32, {3});
  r.bind();
  auto fill = r.begin({3});
  r.store(3, fill, r.constant(7.0f));
  EXPECT_EQ(r.end(), FE_OK) << r.text;
  // The sum is stored once a row; the last element would be stored at each point of the reduction.
  auto i = r.begin({3}, {0});
  auto x = r.load(1, i);
  r.store(2, {i[0]}, r.reduce(FE_REDUCE_SUM, x));
  r.store(3, {i[0]}, x);
  EXPECT_EQ(r.end(), FE_OK) << r.text;
  auto versions = r.recorder.finish();
  ASSERT_TRUE(versions) << versions.error().text;
  // The second result is the buffer that the first statement wrote.
  EXPECT_EQ(r.program.buffers.size(), 3u);
  ASSERT_EQ(r.program.statements.size(), 2u);
  EXPECT_EQ(r.program.statements[1].stores.size(), 1u);
  EXPECT_EQ((*versions)[1], r.program.statements[0].stores[0].buffer);
}

TEST(Recorder, FoldsAMaskThatTheRangeDecides) {
  Recording r;
  r.buffer(Role::input, f32, {4});
  r.buffer(Role::output, f32, {4});
  r.bind();
  auto i = r.begin({4});
  auto mask = r.prim(Prim::lt_, r.value(i[0]), r.constant(i64, 4));
  r.store(2, i, r.load(1, i, mask, r.constant(9.0f)));
  EXPECT_EQ(r.end(), FE_OK);
  r.finish();
  ASSERT_EQ(r.program.statements[0].ops.size(), 1u);
  EXPECT_EQ(r.program.statements[0].ops[0].a, none);
}

TEST(Recorder, DerivesKinds) {
  Recording r;
  r.buffer(Role::input, i64, {5});
  r.buffer(Role::input, f32, {5});
  r.buffer(Role::output, f32, {8});
  r.bind();
  auto i = r.begin({8});
  r.store(3, i, r.constant(0.0f));
  EXPECT_EQ(r.end(), FE_OK);
  i = r.begin({5});
  r.store(3, {r.indirect(r.load(1, i), 8)}, r.load(2, i), FE_STORE_ADD);
  EXPECT_EQ(r.end(), FE_OK) << r.text;
  r.finish();
  EXPECT_EQ(r.program.statements[1].kind, FE_STATEMENT_SCATTER);
  const auto& out = r.program.buffers[r.program.outputs[0]];
  EXPECT_EQ(out.base, 2u);
  EXPECT_EQ(out.version, 1u);
  EXPECT_EQ(r.run<float>(std::vector<int64_t>{0, 7, -1, 3, 0}, std::vector<float>{1, 2, 3, 4, 5}),
            (std::vector<float>{6, 0, 0, 4, 0, 0, 0, 5}));
}

TEST(Recorder, ContractOfHalfAccumulatesInFloat) {
  Recording r;
  r.buffer(Role::input, f16, {2, 3});
  r.buffer(Role::input, f16, {3, 4});
  r.buffer(Role::output, f16, {2, 4});
  r.bind();
  auto i = r.begin({2, 4}, {3});
  r.store(3, {i[0], i[1]}, r.contract(r.load(1, {i[0], i[2]}), r.load(2, {i[2], i[1]})));
  EXPECT_EQ(r.end(), FE_OK) << r.text;
  r.finish();
  const auto& s = r.program.statements[0];
  EXPECT_EQ(s.kind, FE_STATEMENT_CONTRACT);
  EXPECT_EQ(s.contract_kind, FE_CONTRACT_GEMM);
  EXPECT_EQ(s.reductions[0].accumulator, f32);
}

struct Refusal {
  const char* code;
  const char* words;
  void (*record)(Recording&);
};

TEST(Recorder, RefusesWithCodes) {
  const Refusal refusals[] = {
      {"FE-K03", "not shown to be within",
       [](Recording& r) {
         auto i = r.begin({8});
         r.store(2, {i[0]}, r.load(1, {r.index(FE_INDEX_ADD, i[0], r.index(int64_t{1}))}));
         r.end();
       }},
      {"FE-K03", "several points write",
       [](Recording& r) {
         auto i = r.begin({8, 3});
         r.store(2, {i[0]}, r.load(1, {i[0]}));
         r.end();
       }},
      {"FE-K02", "add(f32, i64)",
       [](Recording& r) {
         auto i = r.begin({8});
         r.prim(Prim::add_, r.load(1, i), r.value(i[0]));
       }},
      {"FE-K02", "stored to a buffer of f32",
       [](Recording& r) {
         auto i = r.begin({8});
         r.store(2, i, r.value(i[0]));
       }},
      {"FE-K02", "not bool",
       [](Recording& r) {
         auto i = r.begin({8});
         r.load(1, i, r.value(i[0]), r.constant(0.0f));
       }},
      {"FE-K01", "2 indices for a buffer of 1 dim",
       [](Recording& r) {
         auto i = r.begin({8, 8});
         r.load(1, i);
       }},
      {"FE-K01", "between begin and end", [](Recording& r) { r.constant(1.0f); }},
      {"FE-K01", "begin inside a statement", [](Recording& r) { r.begin({8}), r.begin({8}); }},
      {"FE-K01", "read only",
       [](Recording& r) {
         auto i = r.begin({8});
         r.store(1, i, r.constant(1.0f));
       }},
      {"FE-K01", "before a statement has written it",
       [](Recording& r) {
         auto i = r.begin({8});
         r.load(2, i);
       }},
      {"FE-K01", "no contents",
       [](Recording& r) {
         auto i = r.begin({8});
         r.store(2, i, r.constant(1.0f), FE_STORE_ADD);
       }},
      {"FE-K01", "may be 0",
       [](Recording& r) {
         auto i = r.begin({8});
         r.index(FE_INDEX_MOD, i[0], i[0]);
       }},
      {"FE-K01", "not an index of this statement",
       [](Recording& r) {
         auto i = r.begin({8});
         r.store(2, i, r.load(1, i));
         r.end();
         r.begin({8});
         r.load(1, i);
       }},
      {"FE-K01", "must come first|come first",
       [](Recording& r) {
         fe_var vars[] = {{4, FE_VAR_REDUCTION, 0}, {4, FE_VAR_PARALLEL, 0}};
         fe_begin_args args{};
         args.vars = {vars, 2, sizeof(fe_var)};
         r.token(r.recorder.api()->begin, args);
       }},
      {"FE-K04", "c64",
       [](Recording& r) {
         r.begin({8});
         r.constant(DType::c64_, 0);
       }},
      {"FE-K03", "depends on a reduction's result and on a reduction variable",
       [](Recording& r) {
         auto i = r.begin({}, {8});
         auto x = r.load(1, i);
         r.store(2, i, r.prim(Prim::sub_, x, r.reduce(FE_REDUCE_MAX, x)));
         r.end();
       }},
  };
  for (const auto& refusal : refusals) {
    Recording r;
    r.buffer(Role::input, f32, {8});
    r.buffer(Role::output, f32, {8});
    r.bind();
    refusal.record(r);
    EXPECT_EQ(r.code, refusal.code) << r.text;
    const std::string words(refusal.words);
    const auto bar = words.find('|');
    EXPECT_NE(r.text.find(bar == std::string::npos ? words : words.substr(bar + 1)), std::string::npos)
        << r.text;
    // Everything after is poison, and the program is as it was.
    EXPECT_EQ(r.constant(1.0f), 0u);
    auto versions = r.recorder.finish();
    ASSERT_FALSE(versions);
    EXPECT_EQ(versions.error().code, refusal.code);
    EXPECT_EQ(versions.error().where, "Sample_7");
    EXPECT_EQ(r.program.buffers.size(), 2u);
    EXPECT_TRUE(r.program.statements.empty());
  }
}

TEST(Recorder, NamesAResultThatIsNotWritten) {
  Recording r;
  r.buffer(Role::output, f32, {8});
  r.bind();
  auto versions = r.recorder.finish();
  ASSERT_FALSE(versions);
  EXPECT_NE(versions.error().text.find("did not write result 0"), std::string::npos);
}

}  // namespace
}  // namespace ferrite::core::loop::test
