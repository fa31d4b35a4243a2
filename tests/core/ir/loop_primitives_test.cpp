// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The interpreter against C++ itself: every primitive on every type.
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

}  // namespace
}  // namespace ferrite::core::loop::test
