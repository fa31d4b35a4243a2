// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The interpreter against C++ itself: reductions, memory, indices from data, loops, calls.
#include <cmath>
#include <limits>
#include <random>

#include "tests/core/ir/loop_support.h"

namespace ferrite::core::loop::test {
namespace {

TEST(Eval, ReductionsOfFloats) {
  std::mt19937 random(2);
  for (int64_t columns : {1, 2, 31, 32, 129, 1000}) {
    std::vector<float> x(static_cast<size_t>(5 * columns));
    for (auto& v : x) v = std::normal_distribution<float>()(random);
    for (uint32_t kind : {FE_REDUCE_SUM, FE_REDUCE_PROD, FE_REDUCE_MAX, FE_REDUCE_MIN}) {
      Recording r;
      r.buffer(Role::input, f32, {5, columns});
      r.buffer(Role::output, f32, {5});
      r.bind();
      auto i = r.begin({5}, {columns});
      r.store(2, {i[0]}, r.reduce(kind, r.load(1, i)));
      EXPECT_EQ(r.end(), FE_OK);
      r.finish();
      auto got = r.run<float>(x);
      for (int64_t row = 0; row < 5; ++row) {
        double expected = kind == FE_REDUCE_SUM    ? 0
                          : kind == FE_REDUCE_PROD ? 1
                          : kind == FE_REDUCE_MAX  ? -INFINITY
                                                   : INFINITY;
        for (int64_t k = 0; k < columns; ++k) {
          const double v = x[static_cast<size_t>(row * columns + k)];
          expected = kind == FE_REDUCE_SUM    ? expected + v
                     : kind == FE_REDUCE_PROD ? expected * v
                     : kind == FE_REDUCE_MAX  ? std::max(expected, v)
                                              : std::min(expected, v);
        }
        EXPECT_EQ(got[static_cast<size_t>(row)], static_cast<float>(expected));
      }
    }
  }
}

TEST(Eval, ArgmaxTakesTheFirstAndNan) {
  for (int64_t repeat : {1, 20}) {  // lanes over rows, lanes over the reduction
    Recording r;
    const int64_t n = 4 * repeat;
    r.buffer(Role::input, f32, {3, n});
    r.buffer(Role::output, i64, {3});
    r.bind();
    auto i = r.begin({3}, {n});
    r.store(2, {i[0]}, r.reduce(FE_REDUCE_ARGMAX, r.load(1, i), r.value(i[1])));
    EXPECT_EQ(r.end(), FE_OK) << r.text;
    r.finish();
    std::vector<float> x(static_cast<size_t>(3 * n), 0.0f);
    x[1] = x[2] = 5;
    x[static_cast<size_t>(n) + 2] = NAN;
    x[static_cast<size_t>(n)] = INFINITY;
    for (size_t k = static_cast<size_t>(2 * n); k < x.size(); ++k) x[k] = -INFINITY;
    EXPECT_EQ(r.run<int64_t>(x), (std::vector<int64_t>{1, 2, 0}));
  }
}

TEST(Eval, SoftmaxPiecesInOneProgram) {
  Recording r;
  r.buffer(Role::input, f32, {2, 40});
  r.buffer(Role::output, f32, {2, 40});
  r.bind();
  const auto largest = r.temp(f32, {2}), total = r.temp(f32, {2});
  auto i = r.begin({2}, {40});
  r.store(largest, {i[0]}, r.reduce(FE_REDUCE_MAX, r.load(1, i)));
  EXPECT_EQ(r.end(), FE_OK);
  i = r.begin({2}, {40});
  r.store(
      total, {i[0]},
      r.reduce(FE_REDUCE_SUM, r.prim(Prim::exp_, r.prim(Prim::sub_, r.load(1, i), r.load(largest, {i[0]})))));
  EXPECT_EQ(r.end(), FE_OK);
  i = r.begin({2, 40});
  r.store(2, i,
          r.prim(Prim::div_, r.prim(Prim::exp_, r.prim(Prim::sub_, r.load(1, i), r.load(largest, {i[0]}))),
                 r.load(total, {i[0]})));
  EXPECT_EQ(r.end(), FE_OK);
  r.finish();
  std::vector<float> x(80);
  for (size_t k = 0; k < x.size(); ++k) x[k] = static_cast<float>(k % 7) - 100;
  auto y = r.run<float>(x);
  double sum = 0;
  for (size_t k = 0; k < 40; ++k) sum += y[k];
  EXPECT_NEAR(sum, 1, 1e-6);
}

TEST(Eval, MaskedLoadsGiveTheOtherValue) {
  Recording r;
  r.buffer(Role::input, f32, {4});
  r.buffer(Role::output, f32, {8});
  r.bind();
  auto i = r.begin({8});
  auto shifted = r.index(FE_INDEX_ADD, i[0], r.index(int64_t{-2}));
  auto at = r.value(shifted);
  auto inside = r.prim(Prim::and_, r.prim(Prim::ge_, at, r.constant(i64, 0)),
                       r.prim(Prim::lt_, at, r.constant(i64, 4)));
  r.store(2, i, r.load(1, {shifted}, inside, r.constant(-1.0f)));
  EXPECT_EQ(r.end(), FE_OK) << r.text;
  r.finish();
  EXPECT_EQ(r.run<float>(std::vector<float>{1, 2, 3, 4}), (std::vector<float>{-1, -1, 1, 2, 3, 4, -1, -1}));
}

TEST(Eval, MaskedLoadOutOfRangeIsAnError) {
  Recording r;
  r.buffer(Role::input, f32, {4});
  r.buffer(Role::output, f32, {8});
  r.bind();
  auto i = r.begin({8});
  auto mask = r.prim(Prim::lt_, r.value(i[0]), r.constant(i64, 5));
  r.store(2, i, r.load(1, i, mask, r.constant(-1.0f)));
  EXPECT_EQ(r.end(), FE_OK) << r.text;
  r.finish();
  std::vector<float> x(4), y(8);
  std::vector<ConstMemory> in = {std::as_bytes(std::span(x))};
  std::vector<Memory> out = {std::as_writable_bytes(std::span(y))};
  auto result = evaluate(r.program, in, out);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, "FE-X21");
  EXPECT_NE(result.error().message().find("Sample_7"), std::string::npos) << result.error().message();
}

TEST(Eval, IndirectModes) {
  for (uint32_t mode : {FE_INDIRECT_WRAP, FE_INDIRECT_CLAMP, FE_INDIRECT_CHECK, FE_INDIRECT_ASSUME}) {
    Recording r;
    r.buffer(Role::input, i64, {4});
    r.buffer(Role::input, f32, {3});
    r.buffer(Role::output, f32, {4});
    r.bind();
    auto i = r.begin({4});
    r.store(3, i, r.load(2, {r.indirect(r.load(1, i), 3, mode)}));
    EXPECT_EQ(r.end(), FE_OK) << r.text;
    r.finish();
    auto run = [&](std::vector<int64_t> index, std::vector<float>& y) {
      std::vector<float> x = {10, 20, 30};
      std::vector<ConstMemory> in = {std::as_bytes(std::span(index)), std::as_bytes(std::span(x))};
      std::vector<Memory> out = {std::as_writable_bytes(std::span(y))};
      return evaluate(r.program, in, out);
    };
    std::vector<float> y(4);
    ASSERT_TRUE(run({0, 1, 2, 0}, y));
    EXPECT_EQ(y, (std::vector<float>{10, 20, 30, 10}));
    auto beyond = run({-1, 2, -3, 1}, y);
    if (mode == FE_INDIRECT_WRAP) {
      ASSERT_TRUE(beyond);
      EXPECT_EQ(y, (std::vector<float>{30, 30, 10, 20}));
      EXPECT_FALSE(run({-4, 0, 0, 0}, y));
      auto error = run({0, 3, 0, 0}, y);
      ASSERT_FALSE(error);
      EXPECT_EQ(error.error().message(),
                "FE-X21 statement 0 (map from Sample_7): index 3 is out of range [-3, 3): dim 0 of f32[3]");
    } else if (mode == FE_INDIRECT_CLAMP) {
      ASSERT_TRUE(beyond);
      EXPECT_EQ(y, (std::vector<float>{10, 30, 10, 20}));
      ASSERT_TRUE(run({99, -99, 0, 0}, y));
      EXPECT_EQ(y, (std::vector<float>{30, 10, 10, 10}));
    } else {
      EXPECT_FALSE(beyond);
    }
  }
}

TEST(Eval, IndirectIntoADimOfSizeOne) {
  for (const bool scatters : {false, true})
    for (uint32_t mode : {FE_INDIRECT_WRAP, FE_INDIRECT_CLAMP, FE_INDIRECT_CHECK}) {
      Recording r;
      r.buffer(Role::input, i64, {3});
      r.buffer(Role::input, f32, {scatters ? 3 : 1});
      r.buffer(Role::output, f32, {scatters ? 1 : 3});
      r.bind();
      auto i = r.begin({3});
      const std::vector<uint32_t> place = {r.indirect(r.load(1, i), 1, mode)};
      if (scatters)
        r.store(3, place, r.load(2, i));
      else
        r.store(3, i, r.load(2, place));
      EXPECT_EQ(r.end(), FE_OK) << r.text;
      r.finish();
      EXPECT_EQ(r.program.statements[0].kind, scatters ? FE_STATEMENT_SCATTER : FE_STATEMENT_MAP);
      auto run = [&](std::vector<int64_t> index) {
        const std::vector<float> x = scatters ? std::vector<float>{1, 2, 3} : std::vector<float>{3};
        std::vector<float> y(scatters ? 1 : 3);
        std::vector<ConstMemory> in = {std::as_bytes(std::span(index)), std::as_bytes(std::span(x))};
        std::vector<Memory> out = {std::as_writable_bytes(std::span(y))};
        const auto ran = evaluate(r.program, in, out);
        if (ran) {
          EXPECT_EQ(y, std::vector<float>(y.size(), 3));  // of several updates the last one stays
        }
        return ran.has_value();
      };
      EXPECT_TRUE(run({0, 0, 0}));
      EXPECT_EQ(run({0, -1, 0}), mode != FE_INDIRECT_CHECK);
      EXPECT_EQ(run({0, 1, 0}), mode == FE_INDIRECT_CLAMP);
      EXPECT_EQ(run({-2, 0, 0}), mode == FE_INDIRECT_CLAMP);
    }
}

TEST(Eval, ScatterModes) {
  const float expected[5][3] = {{4, 2, 0}, {1 + 3 + 4, 2, 0}, {0, 0, 0}, {4, 2, 0}, {0, 0, 0}};
  for (uint32_t mode = FE_STORE_SET; mode <= FE_STORE_MIN; ++mode) {
    Recording r;
    r.buffer(Role::input, i32, {4});
    r.buffer(Role::input, f32, {4});
    r.buffer(Role::output, f32, {3});
    r.bind();
    auto i = r.begin({3});
    r.store(3, i, r.constant(0.0f));
    EXPECT_EQ(r.end(), FE_OK);
    i = r.begin({4});
    r.store(3, {r.indirect(r.load(1, i), 3)}, r.load(2, i), mode);
    EXPECT_EQ(r.end(), FE_OK) << r.text;
    r.finish();
    EXPECT_EQ(r.run<float>(std::vector<int32_t>{0, 1, 0, 0}, std::vector<float>{1, 2, 3, 4}),
              std::vector<float>(expected[mode], expected[mode] + 3));
  }
}

TEST(Eval, SerialLoopCarriesItsState) {
  Recording r;
  r.buffer(Role::input, f32, {200, 5});
  r.buffer(Role::output, f32, {200, 5});
  r.bind();
  auto i = r.begin({200}, {}, {5});
  auto sum = r.carry(f32, 0);
  auto next = r.prim(Prim::add_, sum, r.load(1, i));
  r.set_carry(sum, next);
  r.store(2, i, next);
  EXPECT_EQ(r.end(), FE_OK) << r.text;
  r.finish();
  EXPECT_EQ(r.program.statements[0].kind, FE_STATEMENT_SERIAL);
  std::vector<float> x(1000), expected(1000);
  for (size_t k = 0; k < x.size(); ++k) {
    x[k] = static_cast<float>(k);
    expected[k] = x[k] + (k % 5 ? expected[k - 1] : 0);
  }
  EXPECT_EQ(r.run<float>(x), expected);
}

/// Beside a loop over integers: a choice, a masked load and what a serial loop carries, of NaNs whose bits a
/// double does not hold.
template <class Bits>
void check_moved(DType dtype, DType bits) {
  constexpr size_t rows = 7, steps = 5;
  Recording r;
  r.buffer(Role::input, bits, {rows, steps});
  r.buffer(Role::output, bits, {rows, steps});
  r.buffer(Role::output, dtype, {rows, steps});
  r.bind();
  const auto i = r.begin({rows}, {}, {steps});
  const auto carried = r.carry(dtype, 1);
  const auto even =
      r.prim(Prim::eq_, r.prim(Prim::rem_, r.value(i[1]), r.constant(i64, 2)), r.constant(i64, 0));
  const auto taken = r.prim(Prim::bitcast_, r.load(1, i), 0, 0, dtype);
  const auto next = r.prim(Prim::where_, even, taken, carried);
  r.set_carry(carried, next);
  r.store(2, i, r.prim(Prim::bitcast_, next, 0, 0, bits));
  r.store(3, i, next);
  EXPECT_EQ(r.end(), FE_OK) << r.text;
  r.finish();
  std::mt19937_64 random(1);
  const auto infinity = static_cast<Bits>(float_bits(dtype, std::numeric_limits<double>::infinity()));
  std::vector<Bits> x(rows * steps), expected(x.size()), found(x.size()), stored(x.size());
  for (size_t k = 0; k < x.size(); ++k) {
    x[k] = static_cast<Bits>(random()) | infinity;
    expected[k] = k % steps % 2 == 0 ? x[k] : expected[k - 1];
  }
  const ConstMemory inputs[] = {std::as_bytes(std::span(x))};
  const Memory outputs[] = {std::as_writable_bytes(std::span(found)),
                            std::as_writable_bytes(std::span(stored))};
  const auto done = evaluate(r.program, inputs, outputs);
  ASSERT_TRUE(done) << done.error().message();
  EXPECT_EQ(found, expected) << name_of(dtype);
  EXPECT_EQ(stored, expected) << name_of(dtype);
}

TEST(Eval, MovedValuesKeepTheirBits) {
  check_moved<uint64_t>(f64, u64);
  check_moved<uint32_t>(f32, u32);
  check_moved<uint16_t>(f16, u16);
  check_moved<uint16_t>(bf16, u16);
  for (const DType dtype : {f8e4m3, f8e5m2, f8e4m3fnuz, f8e5m2fnuz}) check_moved<uint8_t>(dtype, u8);
}

TEST(Eval, CallsRunAndReport) {
  for (bool fails : {false, true}) {
    Recording r;
    r.buffer(Role::input, f32, {4});
    r.buffer(Role::output, f32, {4});
    r.bind();
    uint32_t reads[] = {1}, writes[] = {2};
    fe_call_args args{};
    args.function = [](void* self, fe_call* call, const fe_kernel_call_args* given, fe_none*) -> int32_t {
      if (self) {
        call->set_error(call->host, {"acme/no", 7}, {"not today", 9});
        return FE_EINVALID;
      }
      const auto* buffers = static_cast<const fe_kernel_buffer*>(given->buffers.data);
      for (int64_t k = 0; k < buffers[0].type.dims[0]; ++k)
        static_cast<float*>(buffers[1].data)[k] = static_cast<const float*>(buffers[0].data)[k] + 1;
      return FE_OK;
    };
    args.self = fails ? &args : nullptr;
    args.reads = {reads, 1, sizeof(uint32_t)};
    args.writes = {writes, 1, sizeof(uint32_t)};
    args.name = {"plus_one", 8};
    fe_none none{};
    EXPECT_EQ(r.slot(r.recorder.api()->call, args, &none), FE_OK) << r.text;
    r.finish();
    std::vector<float> x = {1, 2, 3, 4}, y(4);
    std::vector<ConstMemory> in = {std::as_bytes(std::span(x))};
    std::vector<Memory> out = {std::as_writable_bytes(std::span(y))};
    auto result = evaluate(r.program, in, out);
    EXPECT_EQ(result.has_value(), !fails);
    EXPECT_EQ(fails ? result.error().code : "", fails ? "acme/no" : "");
    EXPECT_EQ(y, fails ? (std::vector<float>(4)) : (std::vector<float>{2, 3, 4, 5}));
  }
}

TEST(Eval, StridedInputWithOffset) {
  Recording r;
  const auto id = r.buffer(Role::input, f32, {3});
  r.program.buffers[id].strides = {-2};
  r.program.buffers[id].offset = 5;
  r.buffer(Role::output, f32, {3});
  r.bind();
  auto i = r.begin({3});
  r.store(2, i, r.load(1, i));
  EXPECT_EQ(r.end(), FE_OK);
  r.finish();
  EXPECT_EQ(r.run<float>(std::vector<float>{0, 1, 2, 3, 4, 5}), (std::vector<float>{5, 3, 1}));
}

TEST(Eval, ShortMemoryIsAnError) {
  Recording r;
  r.buffer(Role::input, f32, {4});
  r.buffer(Role::output, f32, {4});
  r.bind();
  auto i = r.begin({4});
  r.store(2, i, r.load(1, i));
  EXPECT_EQ(r.end(), FE_OK);
  r.finish();
  std::vector<float> x(3), y(4);
  std::vector<ConstMemory> in = {std::as_bytes(std::span(x))};
  std::vector<Memory> out = {std::as_writable_bytes(std::span(y))};
  auto result = evaluate(r.program, in, out);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, "FE-X20");
}

}  // namespace
}  // namespace ferrite::core::loop::test
