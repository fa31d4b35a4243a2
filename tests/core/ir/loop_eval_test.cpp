// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The interpreter against C++ itself: every primitive on every type, reductions, memory, loops.
#include <cfenv>
#include <cmath>
#include <limits>
#include <random>

#include "core/ir/loop/scalar.h"
#include "tests/core/ir/loop_support.h"

namespace ferrite::core::loop::test {
namespace {

__extension__ typedef __int128 Wide;
__extension__ typedef unsigned __int128 UnsignedWide;

template <class T>
constexpr DType dtype_of = std::is_same_v<T, bool>       ? boolean
                           : std::is_same_v<T, int8_t>   ? i8
                           : std::is_same_v<T, int16_t>  ? i16
                           : std::is_same_v<T, int32_t>  ? i32
                           : std::is_same_v<T, int64_t>  ? i64
                           : std::is_same_v<T, uint8_t>  ? u8
                           : std::is_same_v<T, uint16_t> ? u16
                           : std::is_same_v<T, uint32_t> ? u32
                           : std::is_same_v<T, uint64_t> ? u64
                           : std::is_same_v<T, float>    ? f32
                                                         : f64;

/// out = prim(inputs...), elementwise; all inputs have one size.
template <class To, class... From>
std::vector<To> apply(Prim prim, const std::vector<From>&... inputs) {
  Recording r;
  const int64_t n = std::max({static_cast<int64_t>(inputs.size())...});
  (r.buffer(Role::input, dtype_of<From>, {n}), ...);
  r.buffer(Role::output, dtype_of<To>, {n});
  r.bind();
  auto i = r.begin({n});
  constexpr uint32_t count = sizeof...(From);
  uint32_t x[3] = {};
  for (uint32_t k = 0; k < count; ++k) x[k] = r.load(k + 1, i);
  r.store(count + 1, i, r.prim(prim, x[0], x[1], x[2], dtype_of<To>));
  EXPECT_EQ(r.end(), FE_OK) << r.text;
  r.finish();
  return r.run<To>(inputs...);
}

template <class T>
void expect_same(const std::vector<T>& got, const std::vector<T>& expected, const std::string& what) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t k = 0; k < got.size(); ++k) {
    const bool both_nan = expected[k] != expected[k] && got[k] != got[k];
    EXPECT_TRUE(both_nan || got[k] == expected[k])
        << what << " at " << k << ": " << +got[k] << ", not " << +expected[k];
  }
}

template <class T>
class Integers : public testing::Test {};
using IntegerTypes = testing::Types<int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t>;
TYPED_TEST_SUITE(Integers, IntegerTypes);

TYPED_TEST(Integers, Primitives) {
  using T = TypeParam;
  using W = Wide;
  const T low = std::numeric_limits<T>::min(), high = std::numeric_limits<T>::max();
  std::vector<T> values = {0,
                           1,
                           2,
                           3,
                           5,
                           7,
                           low,
                           static_cast<T>(low + 1),
                           high,
                           static_cast<T>(high - 1),
                           static_cast<T>(-1),
                           static_cast<T>(-2),
                           static_cast<T>(-7),
                           31,
                           64};
  std::vector<T> a, b;
  for (T x : values)
    for (T y : values) a.push_back(x), b.push_back(y);
  auto check = [&](Prim prim, auto f) {
    std::vector<T> expected;
    for (size_t k = 0; k < a.size(); ++k)
      expected.push_back(static_cast<T>(f(static_cast<W>(a[k]), static_cast<W>(b[k]))));
    expect_same(apply<T>(prim, a, b), expected, std::string(info_of(prim).name));
  };
  auto floor_mod = [](W x, W y) { return y == 0 ? W{0} : ((x % y) + y) % y; };
  check(Prim::add_, [](W x, W y) { return x + y; });
  check(Prim::sub_, [](W x, W y) { return x - y; });
  check(Prim::mul_,
        [](W x, W y) { return static_cast<W>(static_cast<UnsignedWide>(x) * static_cast<UnsignedWide>(y)); });
  check(Prim::div_, [](W x, W y) { return y == 0 ? W{0} : x / y; });
  check(Prim::rem_, [](W x, W y) { return y == 0 ? W{0} : x % y; });
  check(Prim::mod_, floor_mod);
  check(Prim::min_, [](W x, W y) { return x < y ? x : y; });
  check(Prim::max_, [](W x, W y) { return x > y ? x : y; });
  check(Prim::and_, [](W x, W y) { return x & y; });
  check(Prim::or_, [](W x, W y) { return x | y; });
  check(Prim::xor_, [](W x, W y) { return x ^ y; });
  const int width = static_cast<int>(sizeof(T) * 8);
  check(Prim::shl_, [=](W x, W y) {
    return y < 0 || y >= width ? W{0} : static_cast<W>(static_cast<UnsignedWide>(x) << static_cast<int>(y));
  });
  check(Prim::shr_, [=](W x, W y) { return y < 0 || y >= width ? W{0} : x >> static_cast<int>(y); });
  auto check1 = [&](Prim prim, auto f) {
    std::vector<T> expected;
    for (T x : values) expected.push_back(static_cast<T>(f(static_cast<W>(x))));
    expect_same(apply<T>(prim, values), expected, std::string(info_of(prim).name));
  };
  check1(Prim::neg_, [](W x) { return -x; });
  check1(Prim::abs_, [](W x) { return x < 0 ? -x : x; });
  check1(Prim::sign_, [](W x) { return W{x > 0} - W{x < 0}; });
  check1(Prim::not_, [](W x) { return ~x; });
  auto test = [&](Prim prim, auto f) {
    Recording r;
    const auto n = static_cast<int64_t>(a.size());
    r.buffer(Role::input, dtype_of<T>, {n});
    r.buffer(Role::input, dtype_of<T>, {n});
    r.buffer(Role::output, boolean, {n});
    r.bind();
    auto i = r.begin({n});
    r.store(3, i, r.prim(prim, r.load(1, i), r.load(2, i)));
    EXPECT_EQ(r.end(), FE_OK);
    r.finish();
    auto got = r.template run<uint8_t>(a, b);
    for (size_t k = 0; k < a.size(); ++k)
      EXPECT_EQ(got[k], static_cast<uint8_t>(f(a[k], b[k]))) << info_of(prim).name;
  };
  test(Prim::eq_, [](T x, T y) { return x == y; });
  test(Prim::ne_, [](T x, T y) { return x != y; });
  test(Prim::lt_, [](T x, T y) { return x < y; });
  test(Prim::le_, [](T x, T y) { return x <= y; });
  test(Prim::gt_, [](T x, T y) { return x > y; });
  test(Prim::ge_, [](T x, T y) { return x >= y; });
  // Powers: multiplication, wrapping.
  std::vector<T> base = {0, 1, 2, 3, static_cast<T>(-1), static_cast<T>(-3), 5, 2, static_cast<T>(-1), 3};
  std::vector<T> exponent = {
      0, 9, 7, 4, 3, 5, 40, static_cast<T>(-1), static_cast<T>(-3), static_cast<T>(-2)};
  std::vector<T> expected;
  for (size_t k = 0; k < base.size(); ++k) {
    T value = 1;
    const bool negative = std::is_signed_v<T> && static_cast<int64_t>(exponent[k]) < 0;
    if (negative) {
      value = base[k] == 1                    ? T{1}
              : base[k] == static_cast<T>(-1) ? (exponent[k] % 2 ? static_cast<T>(-1) : T{1})
                                              : T{0};
    } else {
      for (uint64_t left = static_cast<uint64_t>(exponent[k]) & 0xffff; left > 0 && left < 100; --left)
        value = static_cast<T>(static_cast<uint64_t>(value) * static_cast<uint64_t>(base[k]));
      if (static_cast<uint64_t>(exponent[k]) >= 100) {
        value = 1;
        T square = base[k];
        for (auto left = static_cast<uint64_t>(static_cast<std::make_unsigned_t<T>>(exponent[k])); left;
             left >>= 1) {
          if (left & 1) value = static_cast<T>(static_cast<uint64_t>(value) * static_cast<uint64_t>(square));
          square = static_cast<T>(static_cast<uint64_t>(square) * static_cast<uint64_t>(square));
        }
      }
    }
    expected.push_back(value);
  }
  expect_same(apply<T>(Prim::pow_, base, exponent), expected, "pow");
}

template <class To, class From>
To saturate(From x) {
  if (std::isnan(x)) return 0;
  const auto wide = static_cast<long double>(std::trunc(x));
  if (wide <= static_cast<long double>(std::numeric_limits<To>::min())) return std::numeric_limits<To>::min();
  if (wide >= static_cast<long double>(std::numeric_limits<To>::max())) return std::numeric_limits<To>::max();
  return static_cast<To>(x);
}

TYPED_TEST(Integers, Casts) {
  using T = TypeParam;
  std::vector<float> floats = {0,        -0.5f,     1.9f,  -1.9f,  127.5f,       128,    -129,
                               255.9f,   256,       1e10f, -1e10f, 3e38f,        -3e38f, NAN,
                               INFINITY, -INFINITY, 65535, 65536,  4294967040.0f};
  std::vector<double> doubles(floats.begin(), floats.end());
  doubles.push_back(9007199254740993.0);
  doubles.push_back(18446744073709549568.0);
  std::vector<T> expected;
  for (float x : floats) expected.push_back(saturate<T>(x));
  expect_same(apply<T>(Prim::cast_, floats), expected, "from f32");
  expected.clear();
  for (double x : doubles) expected.push_back(saturate<T>(x));
  expect_same(apply<T>(Prim::cast_, doubles), expected, "from f64");
  std::vector<T> ints = {0,
                         1,
                         2,
                         std::numeric_limits<T>::min(),
                         std::numeric_limits<T>::max(),
                         static_cast<T>(-1),
                         static_cast<T>(16777217)};
  auto to = [&]<class U>(U) {
    std::vector<U> converted;
    for (T x : ints) converted.push_back(static_cast<U>(x));
    expect_same(apply<U>(Prim::cast_, ints), converted, "to another type");
  };
  to(int8_t{}), to(int16_t{}), to(int32_t{}), to(int64_t{}), to(uint8_t{}), to(uint16_t{}), to(uint32_t{}),
      to(uint64_t{}), to(0.0f), to(0.0);
}

double floor_modulo(double x, double y) {
  double result = std::fmod(x, y);
  return result == 0 ? std::copysign(0.0, y) : (result < 0) != (y < 0) ? result + y : result;
}

template <class T>
void check_floats() {
  std::vector<T> values = {0,
                           -T{0},
                           1,
                           -1,
                           T(0.5),
                           T(-0.5),
                           T(1.5),
                           T(2.5),
                           T(-2.5),
                           T(1e-3),
                           T(3.7),
                           T(-3.7),
                           10,
                           -10,
                           T(1e-30),
                           T(1e30),
                           std::numeric_limits<T>::infinity(),
                           -std::numeric_limits<T>::infinity(),
                           std::numeric_limits<T>::quiet_NaN()};
  auto check1 = [&](Prim prim, double (*f)(double)) {
    std::vector<T> expected;
    for (T x : values) expected.push_back(static_cast<T>(f(static_cast<double>(x))));
    expect_same(apply<T>(prim, values), expected, std::string(info_of(prim).name));
  };
  check1(Prim::neg_, [](double x) { return -x; });
  check1(Prim::abs_, [](double x) { return std::fabs(x); });
  check1(Prim::sign_, [](double x) { return std::isnan(x) ? x : static_cast<double>((x > 0) - (x < 0)); });
  check1(Prim::exp_, std::exp), check1(Prim::exp2_, std::exp2), check1(Prim::expm1_, std::expm1),
      check1(Prim::log_, std::log);
  check1(Prim::log2_, std::log2), check1(Prim::log1p_, std::log1p), check1(Prim::sqrt_, std::sqrt),
      check1(Prim::sin_, std::sin);
  check1(Prim::rsqrt_, [](double x) { return 1 / std::sqrt(x); });
  check1(Prim::reciprocal_, [](double x) { return 1 / x; });
  check1(Prim::cos_, std::cos), check1(Prim::tan_, std::tan), check1(Prim::asin_, std::asin),
      check1(Prim::acos_, std::acos);
  check1(Prim::atan_, std::atan), check1(Prim::sinh_, std::sinh), check1(Prim::cosh_, std::cosh),
      check1(Prim::tanh_, std::tanh);
  check1(Prim::asinh_, std::asinh), check1(Prim::acosh_, std::acosh), check1(Prim::atanh_, std::atanh),
      check1(Prim::erf_, std::erf);
  check1(Prim::floor_, std::floor), check1(Prim::ceil_, std::ceil), check1(Prim::round_, std::nearbyint),
      check1(Prim::trunc_, std::trunc);
  std::vector<T> a, b, c;
  for (T x : values)
    for (T y : values) a.push_back(x), b.push_back(y), c.push_back(T(0.25));
  auto check2 = [&](Prim prim, auto f) {
    std::vector<T> expected;
    for (size_t k = 0; k < a.size(); ++k)
      expected.push_back(static_cast<T>(f(static_cast<double>(a[k]), static_cast<double>(b[k]))));
    expect_same(apply<T>(prim, a, b), expected, std::string(info_of(prim).name));
  };
  using D = double;
  check2(Prim::add_, [](D x, D y) { return x + y; });
  check2(Prim::sub_, [](D x, D y) { return x - y; });
  check2(Prim::mul_, [](D x, D y) { return x * y; });
  check2(Prim::div_, [](D x, D y) { return x / y; });
  check2(Prim::rem_, [](D x, D y) { return std::fmod(x, y); });
  check2(Prim::mod_, floor_modulo);
  check2(Prim::pow_, [](D x, D y) { return std::pow(x, y); });
  check2(Prim::atan2_, [](D x, D y) { return std::atan2(x, y); });
  check2(Prim::min_, [](D x, D y) { return std::isnan(x) || std::isnan(y) ? NAN : std::fmin(x, y); });
  check2(Prim::max_, [](D x, D y) { return std::isnan(x) || std::isnan(y) ? NAN : std::fmax(x, y); });
  std::vector<T> expected;
  for (size_t k = 0; k < a.size(); ++k)
    expected.push_back(
        static_cast<T>(std::fma(static_cast<D>(a[k]), static_cast<D>(b[k]), static_cast<D>(c[k]))));
  expect_same(apply<T>(Prim::fma_, a, b, c), expected, "fma");
}

TEST(Eval, FloatPrimitives) { check_floats<float>(); }
TEST(Eval, DoublePrimitives) { check_floats<double>(); }

TEST(Eval, EveryPrimitiveIsTested) { EXPECT_EQ(prim_table.size(), 57u); }

TEST(Eval, BoolPrimitivesWhereAndTests) {
  Recording r;
  r.buffer(Role::input, f32, {4});
  r.buffer(Role::output, boolean, {4});
  r.bind();
  auto i = r.begin({4});
  auto x = r.load(1, i);
  auto odd = r.prim(Prim::or_, r.prim(Prim::isnan_, x), r.prim(Prim::isinf_, x));
  auto small = r.prim(Prim::and_, r.prim(Prim::not_, odd), r.prim(Prim::lt_, x, r.constant(2.0f)));
  r.store(2, i, r.prim(Prim::where_, odd, r.prim(Prim::xor_, odd, small), small));
  EXPECT_EQ(r.end(), FE_OK) << r.text;
  r.finish();
  EXPECT_EQ(r.run<uint8_t>(std::vector<float>{NAN, 1, 3, INFINITY}), (std::vector<uint8_t>{1, 1, 0, 1}));
}

TEST(Eval, Bitcasts) {
  const std::vector<float> floats = {1.5f, -0.0f, INFINITY};
  std::vector<int32_t> bits;
  for (float x : floats) bits.push_back(std::bit_cast<int32_t>(x));
  EXPECT_EQ(apply<int32_t>(Prim::bitcast_, floats), bits);
  EXPECT_EQ(apply<float>(Prim::bitcast_, bits), floats);
}

/// The nearest value of a half-width type, ties to even, by search over all of them.
uint16_t nearest_half(bool brain, double value) {
  auto decode = [&](uint16_t bits) {
    return static_cast<double>(brain ? bf16_value(bits) : f16_value(bits));
  };
  const uint16_t infinity = brain ? 0x7f80 : 0x7c00;
  const auto sign = static_cast<uint16_t>(std::signbit(value) ? 0x8000 : 0);
  const double magnitude = std::fabs(value), top = decode(static_cast<uint16_t>(infinity - 1));
  const double beyond = top + (top - decode(static_cast<uint16_t>(infinity - 2))) / 2;
  if (magnitude >= beyond) return sign | infinity;
  uint16_t low = 0, high = static_cast<uint16_t>(infinity - 1);
  while (low < high) {
    const auto middle = static_cast<uint16_t>((low + high + 1) / 2);
    if (decode(middle) <= magnitude)
      low = middle;
    else
      high = static_cast<uint16_t>(middle - 1);
  }
  if (low == infinity - 1) return sign | low;
  const double down = magnitude - decode(low), up = decode(static_cast<uint16_t>(low + 1)) - magnitude;
  return sign | static_cast<uint16_t>(up < down || (up == down && (low & 1)) ? low + 1 : low);
}

TEST(Eval, HalvesRoundToNearestEvenFromDouble) {
  std::mt19937_64 random(1);
  for (bool brain : {false, true}) {
    const DType dtype = brain ? bf16 : f16;
    for (int k = 0; k < 200000; ++k) {
      const double value = std::ldexp(std::uniform_real_distribution<>(-2, 2)(random),
                                      std::uniform_int_distribution<>(-27, 17)(random));
      // Also the middle between two values, and its neighbours in double: what rounding twice gets wrong.
      const auto bits = static_cast<uint16_t>(nearest_half(brain, value));
      const double at = scalar::float_value(dtype, bits),
                   next = scalar::float_value(dtype, static_cast<uint16_t>(bits + 1));
      const double middle = (at + next) / 2;
      for (double x : {value, middle, std::nextafter(middle, 0.0), std::nextafter(middle, 2 * middle)})
        if (std::isfinite(x)) {
          ASSERT_EQ(scalar::float_bits(dtype, x), nearest_half(brain, x)) << x;
        }
    }
  }
}

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

/// Beside a loop over integers: a choice, a masked load and what a serial loop carries, of NaNs whose bits a double does not hold.
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
