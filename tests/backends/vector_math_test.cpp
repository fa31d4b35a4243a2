// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compiles each function of the vector math with the JIT and compares it with the C library in a wider
// format.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>

#include "vector_math_kernel.h"

namespace ferrite::vector_math_test {
namespace {

using emitter::kMathAccuracy;
using emitter::MathAccuracy;

template <typename T>
struct Wider;
template <>
struct Wider<float> {
  using type = double;
};
template <>
struct Wider<double> {
  using type = long double;
};
template <typename T>
using WiderOf = typename Wider<T>::type;

/// Distance of `got` from the exact value in units in the last place of T; NaN and infinities must agree.
template <typename T>
double ulp_error(T got, WiderOf<T> exact) {
  using W = WiderOf<T>;
  constexpr double kWrong = std::numeric_limits<double>::infinity();
  if (std::isnan(exact) || std::isnan(got)) return std::isnan(exact) && std::isnan(got) ? 0 : kWrong;
  const T rounded = static_cast<T>(exact);
  if (exact == 0 || std::isinf(exact) || got == rounded) {
    return got == rounded && std::signbit(got) == std::signbit(exact) ? 0 : kWrong;
  }
  // An overflow close to the largest value is an error of a few ulps: treat infinity as the next power of
  // two.
  const W value = std::isinf(got)
                      ? std::copysign(std::ldexp(W(1), std::numeric_limits<T>::max_exponent), W(got))
                      : W(got);
  const int exponent = std::max(std::ilogb(exact), std::numeric_limits<T>::min_exponent - 1);
  const W ulp = std::ldexp(W(1), exponent - std::numeric_limits<T>::digits + 1);
  return static_cast<double>(std::abs(value - exact) / ulp);
}

template <typename T>
struct UnaryCase {
  const char* name;
  EmitBody emit;
  WiderOf<T> (*reference)(WiderOf<T>);
  /// Inputs are concentrated here; inputs beyond `domain` are not compared.
  double focus;
  double domain;
};

template <typename T>
std::vector<UnaryCase<T>> unary_cases() {
  using W = WiderOf<T>;
  constexpr double kAll = std::numeric_limits<double>::infinity();
  constexpr bool kF32 = sizeof(T) == 4;
  const double exponent = kF32 ? 106 : 750;
  const double turns = kF32 ? VectorMath::kTrigonometricRangeF32 : VectorMath::kTrigonometricRangeF64;
#define FUNCTION(name, focus, domain)                                                                \
  UnaryCase<T>{#name, [](VectorMath& m, llvm::IRBuilder<>&, Value* a, Value*) { return m.name(a); }, \
               [](W x) -> W { return std::name(x); }, focus, domain}
  std::vector<UnaryCase<T>> cases = {
      FUNCTION(exp, exponent, kAll),   FUNCTION(exp2, exponent * 1.5, kAll),
      FUNCTION(expm1, exponent, kAll), FUNCTION(log, 3, kAll),
      FUNCTION(log2, 3, kAll),         FUNCTION(log1p, 3, kAll),
      FUNCTION(sin, turns, turns),     FUNCTION(cos, turns, turns),
      FUNCTION(tan, turns, turns),     FUNCTION(asin, 1, kAll),
      FUNCTION(acos, 1, kAll),         FUNCTION(atan, 10, kAll),
      FUNCTION(sinh, exponent, kAll),  FUNCTION(cosh, exponent, kAll),
      FUNCTION(tanh, 12, kAll),        FUNCTION(asinh, 10, kAll),
      FUNCTION(acosh, 10, kAll),       FUNCTION(atanh, 1, kAll),
      FUNCTION(erf, 6, kAll),
  };
#undef FUNCTION
  cases.push_back({"rsqrt", [](VectorMath& m, llvm::IRBuilder<>&, Value* a, Value*) { return m.rsqrt(a); },
                   [](W x) -> W { return 1 / std::sqrt(x); }, 10, kAll});
  return cases;
}

const MathAccuracy& accuracy_of(std::string_view name) {
  for (const MathAccuracy& row : kMathAccuracy) {
    if (row.function == name) return row;
  }
  ADD_FAILURE() << name << " has no row in kMathAccuracy";
  return kMathAccuracy.front();
}

template <typename T>
double bound_of(std::string_view name) {
  return sizeof(T) == 4 ? accuracy_of(name).f32 : accuracy_of(name).f64;
}

struct Worst {
  double error = 0;
  std::size_t index = 0;
};

template <typename T>
Worst worst_error(const std::vector<T>& a, const std::vector<T>& got, double domain,
                  const std::function<WiderOf<T>(std::size_t)>& reference) {
  Worst worst;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::abs(a[i]) > domain && !std::isinf(a[i])) continue;
    const double error = ulp_error<T>(got[i], reference(i));
    if (error > worst.error) worst = {error, i};
  }
  return worst;
}

template <typename T>
void report(Level level, const char* name, double error) {
  std::printf("%-8s %s%s  max %.3f ulp  (bound %.1f)\n", name, sizeof(T) == 4 ? "f32" : "f64",
              level == Level::baseline ? " baseline" : "", error, bound_of<T>(name));
}

TYPED_TEST(VectorMathTest, UnaryFunctionsKeepTheirAccuracy) {
  using T = typename TypeParam::Element;
  const std::size_t count = sizeof(T) == 4 ? std::size_t{1} << 20 : std::size_t{1} << 18;
  for (const UnaryCase<T>& test : unary_cases<T>()) {
    const std::vector<T> inputs = sweep<T>(count, test.focus);
    const std::vector<T> got = evaluate<T>(TypeParam::level, kLanes<T>, inputs, inputs, test.emit);
    const Worst worst =
        worst_error<T>(inputs, got, test.domain, [&](std::size_t i) { return test.reference(inputs[i]); });
    report<T>(TypeParam::level, test.name, worst.error);
    EXPECT_LE(worst.error, bound_of<T>(test.name))
        << test.name << "(" << std::hexfloat << inputs[worst.index] << ") = " << got[worst.index] << ", not "
        << static_cast<T>(test.reference(inputs[worst.index]));

    // The scalar form gives the same bits.
    const std::vector<T> some(inputs.begin(), inputs.begin() + 4096);
    const std::vector<T> scalar = evaluate<T>(TypeParam::level, 1, some, some, test.emit);
    for (std::size_t i = 0; i < some.size(); ++i) {
      if (std::isnan(got[i]) && std::isnan(scalar[i])) continue;
      ASSERT_EQ(std::bit_cast<Bits<T>>(scalar[i]), std::bit_cast<Bits<T>>(got[i]))
          << test.name << "(" << some[i] << ")";
    }
  }
}

/// All pairs of the special values, then pairs whose power is mostly finite.
template <typename T>
void fill_pairs(std::vector<T>& a, std::vector<T>& b, std::size_t count, bool for_pow) {
  const std::vector<T> special = special_values<T>();
  for (T x : special) {
    for (T y : special) {
      a.push_back(x);
      b.push_back(y);
    }
  }
  std::mt19937_64 random(2);
  const double largest = sizeof(T) == 4 ? 150 : 1076;
  std::uniform_real_distribution<double> uniform(-1, 1);
  const std::vector<T> any = sweep<T>(count, 4);
  while (a.size() < count) {
    const T x = for_pow ? std::abs(any[a.size()]) : any[a.size()];
    const double target = uniform(random) * largest;
    const double y =
        for_pow ? target / std::log2(static_cast<double>(x)) : uniform(random) * 10 * static_cast<double>(x);
    const bool whole = for_pow && a.size() % 8 == 0;
    a.push_back(whole ? -x : x);
    b.push_back(static_cast<T>(whole ? std::nearbyint(y) : y));
  }
  a.resize(count);
  b.resize(count);
}

TYPED_TEST(VectorMathTest, PowKeepsItsAccuracyAndSpecialCases) {
  using T = typename TypeParam::Element;
  std::vector<T> x;
  std::vector<T> y;
  fill_pairs<T>(x, y, sizeof(T) == 4 ? std::size_t{1} << 20 : std::size_t{1} << 18, true);
  const auto got =
      evaluate<T>(TypeParam::level, kLanes<T>, x, y,
                  [](VectorMath& m, llvm::IRBuilder<>&, Value* a, Value* b) { return m.pow(a, b); });
  const auto reference = [&](std::size_t i) { return std::pow(WiderOf<T>(x[i]), WiderOf<T>(y[i])); };
  const Worst worst = worst_error<T>(x, got, std::numeric_limits<double>::infinity(), reference);
  report<T>(TypeParam::level, "pow", worst.error);
  EXPECT_LE(worst.error, bound_of<T>("pow"))
      << std::hexfloat << x[worst.index] << " ^ " << y[worst.index] << " = " << got[worst.index] << ", not "
      << reference(worst.index);
}

TYPED_TEST(VectorMathTest, ExponentialsOfNegativeValuesAreThoseOfAll) {
  using T = typename TypeParam::Element;
  std::vector<T> x = sweep<T>(1 << 16, 7);
  for (T& each : x) each = -std::abs(each);
  const auto evaluated = [&](auto function) {
    return evaluate<T>(TypeParam::level, kLanes<T>, x, x,
                       [&](VectorMath& m, llvm::IRBuilder<>&, Value* a, Value*) { return (m.*function)(a); });
  };
  const auto all = evaluated(&VectorMath::exp), negative = evaluated(&VectorMath::exp_of_negative);
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (std::isnan(x[i]))
      EXPECT_TRUE(std::isnan(negative[i]));
    else
      EXPECT_EQ(negative[i], all[i]) << x[i];
  }
}

TYPED_TEST(VectorMathTest, OnePlusErfKeepsTheAccuracyOfASum) {
  using T = typename TypeParam::Element;
  const bool quotient = TypeParam::level == Level::native && sizeof(T) == 4;  // division is cheap there
  const auto body = [](VectorMath& m, llvm::IRBuilder<>&, Value* a, Value*) { return m.one_plus_erf(a); };
  const std::vector<T> a = sweep<T>(1 << 16, 6);
  const std::vector<T> got = evaluate<T>(TypeParam::level, kLanes<T>, a, a, body);
  const std::vector<T> alone = evaluate<T>(TypeParam::level, 1, a, a, body);
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i])) {
      EXPECT_TRUE(std::isnan(got[i]));
      continue;
    }
    EXPECT_EQ(got[i], alone[i]) << a[i];
    const WiderOf<T> exact = std::erfc(-static_cast<WiderOf<T>>(a[i]));
    if (std::abs(a[i]) >= T(6)) {
      EXPECT_EQ(got[i], a[i] < 0 ? T(0) : T(2)) << a[i];  // gelu multiplies it with a possibly large number
    }
    const T of_one = std::numeric_limits<T>::epsilon();
    EXPECT_LE(std::abs(got[i] - exact), quotient ? 3.5 * of_one : 1.5 * of_one / (exact < 1 ? 2 : 1)) << a[i];
  }
}

TYPED_TEST(VectorMathTest, Atan2KeepsItsAccuracyAndSpecialCases) {
  using T = typename TypeParam::Element;
  std::vector<T> x;
  std::vector<T> y;
  fill_pairs<T>(x, y, std::size_t{1} << 18, false);
  const auto got =
      evaluate<T>(TypeParam::level, kLanes<T>, y, x,
                  [](VectorMath& m, llvm::IRBuilder<>&, Value* a, Value* b) { return m.atan2(a, b); });
  const auto reference = [&](std::size_t i) { return std::atan2(WiderOf<T>(y[i]), WiderOf<T>(x[i])); };
  const Worst worst = worst_error<T>(x, got, std::numeric_limits<double>::infinity(), reference);
  report<T>(TypeParam::level, "atan2", worst.error);
  EXPECT_LE(worst.error, bound_of<T>("atan2"))
      << std::hexfloat << "atan2(" << y[worst.index] << ", " << x[worst.index] << ") = " << got[worst.index];
}

TYPED_TEST(VectorMathTest, ExactFunctionsAreExact) {
  using T = typename TypeParam::Element;
  const std::vector<T> special = special_values<T>();
  std::vector<T> a = sweep<T>(std::size_t{1} << 14, 1000);
  std::vector<T> b = a;
  std::shuffle(b.begin(), b.end(), std::mt19937_64(3));
  for (T x : special) {
    for (T y : special) {
      a.push_back(x);
      b.push_back(y);
    }
  }
  a.resize(a.size() / 16 * 16);
  struct Case {
    const char* name;
    EmitBody emit;
    T (*reference)(T, T);
  };
  using Builder = llvm::IRBuilder<>;
  const Case cases[] = {
      {"sqrt", [](VectorMath& m, Builder&, Value* x, Value*) { return m.sqrt(x); },
       [](T x, T) { return std::sqrt(x); }},
      {"reciprocal", [](VectorMath& m, Builder&, Value* x, Value*) { return m.reciprocal(x); },
       [](T x, T) { return 1 / x; }},
      {"floor", [](VectorMath& m, Builder&, Value* x, Value*) { return m.floor(x); },
       [](T x, T) { return std::floor(x); }},
      {"ceil", [](VectorMath& m, Builder&, Value* x, Value*) { return m.ceil(x); },
       [](T x, T) { return std::ceil(x); }},
      {"round_even", [](VectorMath& m, Builder&, Value* x, Value*) { return m.round_even(x); },
       [](T x, T) { return std::nearbyint(x); }},
      {"trunc", [](VectorMath& m, Builder&, Value* x, Value*) { return m.trunc(x); },
       [](T x, T) { return std::trunc(x); }},
      {"abs", [](VectorMath& m, Builder&, Value* x, Value*) { return m.abs(x); },
       [](T x, T) { return std::abs(x); }},
      {"sign", [](VectorMath& m, Builder&, Value* x, Value*) { return m.sign(x); },
       [](T x, T) { return x > 0   ? T(1)
                           : x < 0 ? T(-1)
                                   : x; }},
      {"fmod", [](VectorMath& m, Builder&, Value* x, Value* y) { return m.fmod(x, y); },
       [](T x, T y) { return std::fmod(x, y); }},
      {"min_nan", [](VectorMath& m, Builder&, Value* x, Value* y) { return m.min_nan(x, y); },
       [](T x, T y) { return std::isnan(x) || std::isnan(y) ? x + y : std::min(x, y); }},
      {"max_nan", [](VectorMath& m, Builder&, Value* x, Value* y) { return m.max_nan(x, y); },
       [](T x, T y) { return std::isnan(x) || std::isnan(y) ? x + y : std::max(x, y); }},
  };
  for (const Case& test : cases) {
    const bool calls = std::string_view(test.name) == "fmod";
    const std::vector<T> got = evaluate<T>(TypeParam::level, kLanes<T>, a, b, test.emit, calls);
    for (std::size_t i = 0; i < a.size(); ++i) {
      const T expected = test.reference(a[i], b[i]);
      if (std::isnan(expected) && std::isnan(got[i])) continue;
      // For zeros of both signs, an extremum may return either.
      if (std::string_view(test.name).ends_with("_nan") && a[i] == 0 && b[i] == 0 && got[i] == 0) continue;
      ASSERT_EQ(std::bit_cast<Bits<T>>(got[i]), std::bit_cast<Bits<T>>(expected))
          << test.name << "(" << a[i] << ", " << b[i] << ") = " << got[i] << ", not " << expected;
    }
  }
}

/// The emulation agrees with the C library: for products of which only the rounding error is left, sums in
/// which either term vanishes, signed zeros, infinities and NaN. A sum that is rounded twice may be the
/// neighbouring number if it lies next to a midpoint. In f64, factors and products stay in a range where no
/// part over- or underflows.
TYPED_TEST(VectorMathTest, FusedMultiplyAdd) {
  using T = typename TypeParam::Element;
  std::vector<T> a;
  std::vector<T> b;
  fill_pairs<T>(a, b, std::size_t{1} << 16, false);
  std::shuffle(b.begin() + static_cast<std::ptrdiff_t>(b.size() / 2), b.end(), std::mt19937_64(4));
  struct Case {
    const char* addend;
    EmitBody emit;
    T (*of)(T, T);
  };
  using Builder = llvm::IRBuilder<>;
  const Case cases[] = {
      {"a", [](VectorMath& m, Builder&, Value* x, Value* y) { return m.fma(x, y, x); },
       [](T x, T) { return x; }},
      {"-b", [](VectorMath& m, Builder& e, Value* x, Value* y) { return m.fma(x, y, e.CreateFNeg(y)); },
       [](T, T y) { return -y; }},
      {"-ab",
       [](VectorMath& m, Builder& e, Value* x, Value* y) {
         return m.fma(x, y, e.CreateFNeg(e.CreateFMul(x, y)));
       },
       [](T x, T y) { return -(x * y); }},
      {"-ab/2",
       [](VectorMath& m, Builder& e, Value* x, Value* y) {
         return m.fma(x, y, e.CreateFMul(e.CreateFMul(x, y), llvm::ConstantFP::get(x->getType(), -0.5)));
       },
       [](T x, T y) { return x * y * T(-0.5); }},
  };
  for (const Case& test : cases) {
    const std::vector<T> got = evaluate<T>(TypeParam::level, kLanes<T>, a, b, test.emit);
    std::size_t compared = 0, neighbours = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      const T product = std::abs(a[i] * b[i]);
      const bool finite = std::isfinite(a[i]) && std::isfinite(b[i]);
      if (sizeof(T) == 8 && finite && a[i] != 0 && b[i] != 0 &&
          !(product > T(0x1p-969) && product < T(0x1p996) && std::abs(a[i]) < T(0x1p996) &&
            std::abs(b[i]) < T(0x1p996)))
        continue;
      ++compared;
      const T expected = std::fma(a[i], b[i], test.of(a[i], b[i]));
      if (std::isnan(expected) && std::isnan(got[i])) continue;
      const bool is_error = std::string_view(test.addend) == "-ab";
      if (!is_error && std::isfinite(expected) && got[i] != expected &&
          (got[i] == std::nextafter(expected, T(0)) || got[i] == std::nextafter(expected, 2 * expected))) {
        ++neighbours;
        continue;
      }
      ASSERT_EQ(std::bit_cast<Bits<T>>(got[i]), std::bit_cast<Bits<T>>(expected))
          << std::hexfloat << a[i] << " * " << b[i] << " + " << test.addend << " = " << got[i] << ", not "
          << expected;
    }
    EXPECT_GT(compared, a.size() / 4);
    EXPECT_LE(neighbours, compared / 1000);
  }
}

TYPED_TEST(VectorMathTest, LargeAnglesStayInRange) {
  using T = typename TypeParam::Element;
  const std::vector<T> inputs = sweep<T>(std::size_t{1} << 16, 1e30);
  for (const bool sine : {true, false}) {
    const auto got = evaluate<T>(
        TypeParam::level, kLanes<T>, inputs, inputs,
        [&](VectorMath& m, llvm::IRBuilder<>&, Value* a, Value*) { return sine ? m.sin(a) : m.cos(a); });
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (std::isfinite(inputs[i])) {
        ASSERT_LE(std::abs(got[i]), T(1)) << inputs[i];
      } else {
        ASSERT_TRUE(std::isnan(got[i])) << inputs[i];
      }
    }
  }
}

TEST(VectorMathEmission, LeavesTheBuildersFastMathFlagsAloneAndUsesNone) {
  llvm::LLVMContext context;
  llvm::Module module("flags", context);
  llvm::IRBuilder<> builder(context);
  auto* type = builder.getFloatTy();
  auto* function = llvm::Function::Create(llvm::FunctionType::get(type, {type, type}, false),
                                          llvm::Function::ExternalLinkage, "f", module);
  builder.SetInsertPoint(llvm::BasicBlock::Create(context, "entry", function));
  builder.setFastMathFlags(llvm::FastMathFlags::getFast());
  VectorMath math(builder, {true, true, true});
  builder.CreateRet(math.erf(math.pow(math.sin(function->getArg(0)), math.tanh(function->getArg(1)))));
  EXPECT_TRUE(builder.getFastMathFlags().isFast());
  for (const llvm::Instruction& instruction : function->getEntryBlock()) {
    if (llvm::isa<llvm::FPMathOperator>(instruction)) {
      EXPECT_FALSE(instruction.getFastMathFlags().any());
    }
  }
}

TEST(VectorMathTiming, ExponentialInTheFirstLevelCache) {
  constexpr std::size_t kCount = 4096;
  std::vector<float> inputs(kCount);
  for (std::size_t i = 0; i < kCount; ++i) inputs[i] = static_cast<float>(i) / 64 - 32;
  std::vector<float> outputs(kCount);
  for (const Level level : {Level::native, Level::baseline}) {
    const Kernel kernel = compile<float, float>(
        level, 16, [](VectorMath& m, llvm::IRBuilder<>&, Value* a, Value*) { return m.exp(a); });
    double best = std::numeric_limits<double>::infinity();
    for (int round = 0; round < 200; ++round) {
      const auto start = std::chrono::steady_clock::now();
      for (int repeat = 0; repeat < 20; ++repeat)
        kernel.run(inputs.data(), inputs.data(), outputs.data(), kCount);
      const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
      best = std::min(best, time.count() / 20);
    }
    std::printf("exp f32, %s: %.2f Gel/s on one core, in the first-level cache\n",
                level == Level::native ? "this machine" : "baseline", kCount / best * 1e-9);
  }
}

}  // namespace
}  // namespace ferrite::vector_math_test
