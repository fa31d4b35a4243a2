// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Conversions of the vector math between element types, compiled with the JIT and compared with the host's.
#include <gtest/gtest.h>

#include <cmath>

#include "vector_math_kernel.h"

namespace ferrite::vector_math_test {
namespace {

template <typename T, typename I>
void check_saturation(Level level) {
  std::vector<T> inputs = sweep<T>(std::size_t{1} << 12, 1e3);
  for (double edge : {127.0, 128.0, -128.0, -129.0, 255.0, 256.0, 65535.0, 65536.0, 2147483647.0,
                      2147483648.0, -2147483648.0, 4294967295.0, 4294967296.0, 9.2233720368547758e18,
                      -9.2233720368547758e18, 1.8446744073709552e19, -0.9, 0.9, -1.0}) {
    inputs.insert(inputs.end(), 16, static_cast<T>(edge));
  }
  const auto got = evaluate<T, I>(
      level, kLanes<T>, inputs, inputs, [](VectorMath& m, llvm::IRBuilder<>& b, Value* x, Value*) {
        return m.float_to_int_saturating(x, b.getIntNTy(8 * sizeof(I)), std::is_signed_v<I>);
      });
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const T x = std::trunc(inputs[i]);
    const I expected = std::isnan(x)                                        ? I(0)
                       : x <= static_cast<T>(std::numeric_limits<I>::min()) ? std::numeric_limits<I>::min()
                       : x >= static_cast<T>(std::numeric_limits<I>::max()) ? std::numeric_limits<I>::max()
                                                                            : static_cast<I>(x);
    ASSERT_EQ(got[i], expected) << inputs[i];
  }
}

TYPED_TEST(VectorMathTest, FloatToIntSaturates) {
  check_saturation<typename TypeParam::Element, std::int8_t>(TypeParam::level);
  check_saturation<typename TypeParam::Element, std::uint8_t>(TypeParam::level);
  check_saturation<typename TypeParam::Element, std::int16_t>(TypeParam::level);
  check_saturation<typename TypeParam::Element, std::int32_t>(TypeParam::level);
  check_saturation<typename TypeParam::Element, std::uint32_t>(TypeParam::level);
  check_saturation<typename TypeParam::Element, std::int64_t>(TypeParam::level);
  check_saturation<typename TypeParam::Element, std::uint64_t>(TypeParam::level);
}

class VectorMathConversions : public testing::TestWithParam<Level> {};
INSTANTIATE_TEST_SUITE_P(Levels, VectorMathConversions, testing::Values(Level::native, Level::baseline));

TEST_P(VectorMathConversions, Bfloat16RoundTripsAndRoundsToEven) {
  const Level level = GetParam();
  std::vector<std::uint16_t> all(65536);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
  const auto wide = evaluate<std::uint16_t, float>(
      level, 16, all, all,
      [](VectorMath& m, llvm::IRBuilder<>&, Value* a, Value*) { return m.widen_bf16(a); });
  const auto narrow = [&](const std::vector<float>& values) {
    return evaluate<float, std::uint16_t>(
        level, 16, values, values,
        [](VectorMath& m, llvm::IRBuilder<>&, Value* a, Value*) { return m.narrow_bf16(a); });
  };
  const auto back = narrow(wide);
  for (std::size_t i = 0; i < all.size(); ++i) {
    ASSERT_EQ(std::bit_cast<std::uint32_t>(wide[i]), static_cast<std::uint32_t>(i) << 16);
    ASSERT_EQ(back[i], std::isnan(wide[i]) ? all[i] | 0x40 : all[i]);
  }
  std::vector<float> edges;
  for (std::uint32_t bits : {0x3f808000u, 0x3f818000u, 0x3f808001u, 0x3f807fffu, 0x7f7fffffu, 0xff7f8000u,
                             0x7f800001u, 0xffffffffu, 0x00000001u, 0x80008000u, 0x00018000u, 0x7f800000u}) {
    edges.push_back(std::bit_cast<float>(bits));
  }
  edges.resize(16);
  const std::vector<std::uint16_t> expected = {0x3f80, 0x3f82, 0x3f81, 0x3f80, 0x7f80, 0xff80, 0x7fc0, 0xffff,
                                               0x0000, 0x8000, 0x0002, 0x7f80, 0,      0,      0,      0};
  EXPECT_EQ(narrow(edges), expected);
}

TEST_P(VectorMathConversions, FloatsOf8BitsAsOnTheHost) {
  const Level level = GetParam();
  std::vector<std::uint8_t> all(256);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint8_t>(i);
  std::vector<float> values;
  for (std::uint64_t bits = 0; bits < std::uint64_t{1} << 32; bits += 1021)
    values.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  values.resize(values.size() / 16 * 16);
  for (const DType dtype : {f8e4m3, f8e5m2, f8e4m3fnuz, f8e5m2fnuz}) {
    SCOPED_TRACE(name_of(dtype));
    // Each value, the midpoint between it and the next one, and the neighbours of both.
    std::vector<float> edges;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const float value = f8_value(dtype, all[i]), next = f8_value(dtype, static_cast<std::uint8_t>(i + 1));
      for (float at : {value, (value + next) / 2})
        for (float x : {at, std::nextafter(at, -HUGE_VALF), std::nextafter(at, HUGE_VALF)})
          edges.push_back(x);
    }
    edges.resize(edges.size() / 16 * 16);
    for (const auto& given : {values, edges}) {
      const auto narrow = evaluate<float, std::uint8_t>(
          level, 16, given, given,
          [&](VectorMath& m, llvm::IRBuilder<>&, Value* a, Value*) { return m.narrow_f8(a, dtype); });
      for (std::size_t i = 0; i < given.size(); ++i)
        ASSERT_EQ(narrow[i], f8_bits(dtype, given[i])) << given[i];
    }
    if (dtype == f8e5m2) continue;  // it has infinities, and is widened as the upper half of an f16
    const auto wide = evaluate<std::uint8_t, float>(
        level, 16, all, all,
        [&](VectorMath& m, llvm::IRBuilder<>&, Value* a, Value*) { return m.widen_f8(a, dtype); });
    for (std::size_t i = 0; i < all.size(); ++i)
      ASSERT_EQ(std::bit_cast<std::uint32_t>(wide[i]), std::bit_cast<std::uint32_t>(f8_value(dtype, all[i])))
          << i;
  }
}

TEST_P(VectorMathConversions, RoundsToOddAsOnTheHost) {
  std::mt19937_64 random(1);
  std::vector<double> values = special_values<double>();
  while (values.size() < 4096) {
    const double value = std::ldexp(std::uniform_real_distribution<>(-2, 2)(random),
                                    std::uniform_int_distribution<>(-160, 140)(random));
    values.push_back(random() % 2 ? value : static_cast<double>(static_cast<float>(value)));
  }
  const auto got = evaluate<double, float>(
      GetParam(), 4, values, values,
      [](VectorMath& m, llvm::IRBuilder<>&, Value* a, Value*) { return m.round_to_odd(a); });
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (std::isnan(values[i])) {
      ASSERT_TRUE(std::isnan(got[i]));
    } else {
      ASSERT_EQ(std::bit_cast<std::uint32_t>(got[i]),
                std::bit_cast<std::uint32_t>(ferrite::round_to_odd(values[i])))
          << values[i];
    }
  }
}

TEST(VectorMathHalf, RoundTrips) {
  std::vector<std::uint16_t> all(65536);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
  const auto body = [](VectorMath& m, llvm::IRBuilder<>& b, Value* a, Value*) {
    Value* half = b.CreateBitCast(a, llvm::FixedVectorType::get(b.getHalfTy(), 16));
    return b.CreateBitCast(m.narrow_f16(m.widen_f16(half)), a->getType());
  };
  const auto back = evaluate<std::uint16_t>(Level::native, 16, all, all, body, true);
  for (std::size_t i = 0; i < all.size(); ++i) {
    // The quiet bit of a NaN is up to the target.
    const bool nan = (i & 0x7fff) > 0x7c00;
    ASSERT_EQ(back[i] | (nan ? 0x200 : 0), all[i] | (nan ? 0x200 : 0));
  }
}

}  // namespace
}  // namespace ferrite::vector_math_test
