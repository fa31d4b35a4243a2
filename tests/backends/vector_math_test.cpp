// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compiles each function of the vector math with the JIT and compares it with the C library in a wider
// format.
#include "ferrite/emitter/vector_math.h"

#include <gtest/gtest.h>
#include <llvm/ExecutionEngine/Orc/LLJIT.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/TargetParser/Host.h>
#include <llvm/Transforms/InstCombine/InstCombine.h>
#include <llvm/Transforms/Scalar/EarlyCSE.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <limits>
#include <memory>
#include <numbers>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

namespace {

using ferrite::DType;
using ferrite::f8e4m3;
using ferrite::f8e4m3fnuz;
using ferrite::f8e5m2;
using ferrite::f8e5m2fnuz;
using ferrite::emitter::kMathAccuracy;
using ferrite::emitter::MathAccuracy;
using ferrite::emitter::MathInstructions;
using ferrite::emitter::VectorMath;
using llvm::Value;

using EmitBody = std::function<Value*(VectorMath&, llvm::IRBuilder<>&, Value* a, Value* b)>;
/// (a, b, result, count): count elements, a multiple of the lanes.
using KernelFunction = void (*)(const void*, const void*, void*, std::int64_t);

/// One compiled loop `result[i] = body(a[i], b[i])` and the JIT that owns it.
struct Kernel {
  std::unique_ptr<llvm::orc::LLJIT> jit;
  KernelFunction run = nullptr;
};

template <typename T>
llvm::Type* scalar_type(llvm::LLVMContext& context) {
  if constexpr (std::is_same_v<T, float>)
    return llvm::Type::getFloatTy(context);
  else if constexpr (std::is_same_v<T, double>)
    return llvm::Type::getDoubleTy(context);
  else
    return llvm::Type::getIntNTy(context, 8 * sizeof(T));
}

/// What the code is made for: this machine, or the oldest of its kind, which neither fuses multiply and add nor rounds to integers.
enum class Level { native, baseline };

/// Code may call the C library where `calls` says so, else such code is not linked.
template <typename In, typename Out>
Kernel compile(Level level, unsigned lanes, const EmitBody& body, bool calls = false) {
  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
  auto machine = llvm::cantFail(llvm::orc::JITTargetMachineBuilder::detectHost());
  const bool x86 = machine.getTargetTriple().isX86();
  const auto host = llvm::sys::getHostCPUFeatures();
  const bool fused = !x86 || host.lookup("fma");
  MathInstructions has{fused, !x86 || host.lookup("sse4.1"), fused};
  if (level == Level::baseline) {
    has = {};
    if (x86) {
      machine = llvm::orc::JITTargetMachineBuilder(machine.getTargetTriple());
      machine.setCPU("x86-64");
    }
  }
  const std::string processor = machine.getCPU();
  const std::string features = machine.getFeatures().getString();
  llvm::orc::LLJITBuilder jit;
  jit.setJITTargetMachineBuilder(std::move(machine));
  // What runs initialisers, of which there are none, would need the process's symbols.
  if (!calls) jit.setLinkProcessSymbolsByDefault(false).setPlatformSetUp(llvm::orc::setUpInactivePlatform);
  Kernel kernel{llvm::cantFail(jit.create())};

  auto context = std::make_unique<llvm::LLVMContext>();
  auto module = std::make_unique<llvm::Module>("vector_math", *context);
  module->setDataLayout(kernel.jit->getDataLayout());
  llvm::IRBuilder<> builder(*context);
  auto* pointer = builder.getPtrTy();
  auto* index_type = builder.getInt64Ty();
  auto* function = llvm::Function::Create(
      llvm::FunctionType::get(builder.getVoidTy(), {pointer, pointer, pointer, index_type}, false),
      llvm::Function::ExternalLinkage, "kernel", *module);
  function->addFnAttr("target-cpu", processor);
  function->addFnAttr("target-features", features);
  function->addFnAttr("prefer-vector-width", "512");

  llvm::Type* in_type = scalar_type<In>(*context);
  llvm::Type* out_type = scalar_type<Out>(*context);
  llvm::Type* in_lanes = lanes == 1 ? in_type : llvm::FixedVectorType::get(in_type, lanes);
  auto* entry = llvm::BasicBlock::Create(*context, "entry", function);
  auto* loop = llvm::BasicBlock::Create(*context, "loop", function);
  auto* exit = llvm::BasicBlock::Create(*context, "exit", function);
  builder.SetInsertPoint(entry);
  builder.CreateBr(loop);
  builder.SetInsertPoint(loop);
  auto* index = builder.CreatePHI(index_type, 2);
  const auto load = [&](unsigned argument) -> Value* {
    Value* address = builder.CreateGEP(in_type, function->getArg(argument), index);
    return builder.CreateAlignedLoad(in_lanes, address, llvm::Align(sizeof(In)));
  };
  VectorMath math(builder, has);
  Value* a = load(0);
  Value* b = load(1);
  Value* result = body(math, builder, a, b);
  builder.CreateAlignedStore(result, builder.CreateGEP(out_type, function->getArg(2), index),
                             llvm::Align(sizeof(Out)));
  Value* next = builder.CreateAdd(index, builder.getInt64(lanes));
  index->addIncoming(builder.getInt64(0), entry);
  index->addIncoming(next, loop);
  builder.CreateCondBr(builder.CreateICmpULT(next, function->getArg(3)), loop, exit);
  builder.SetInsertPoint(exit);
  builder.CreateRetVoid();
  EXPECT_FALSE(llvm::verifyFunction(*function, &llvm::errs()));

  llvm::PassBuilder passes;
  llvm::FunctionAnalysisManager functions;
  llvm::LoopAnalysisManager loops;
  llvm::CGSCCAnalysisManager graphs;
  llvm::ModuleAnalysisManager modules;
  passes.registerModuleAnalyses(modules);
  passes.registerCGSCCAnalyses(graphs);
  passes.registerFunctionAnalyses(functions);
  passes.registerLoopAnalyses(loops);
  passes.crossRegisterProxies(loops, functions, graphs, modules);
  llvm::FunctionPassManager manager;
  manager.addPass(llvm::EarlyCSEPass());
  manager.addPass(llvm::InstCombinePass());
  manager.run(*function, functions);

  llvm::cantFail(kernel.jit->addIRModule({std::move(module), std::move(context)}));
  kernel.run = llvm::cantFail(kernel.jit->lookup("kernel")).toPtr<KernelFunction>();
  return kernel;
}

template <typename In, typename Out = In>
std::vector<Out> evaluate(Level level, unsigned lanes, const std::vector<In>& a, const std::vector<In>& b,
                          const EmitBody& body, bool calls = false) {
  const Kernel kernel = compile<In, Out>(level, lanes, body, calls);
  std::vector<Out> result(a.size());
  kernel.run(a.data(), b.data(), result.data(), static_cast<std::int64_t>(a.size()));
  return result;
}

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

template <typename T>
using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;

template <typename T>
constexpr unsigned kLanes = sizeof(T) == 4 ? 16 : 4;

/// Distance of `got` from the exact value in units in the last place of T; NaN and infinities have to agree.
template <typename T>
double ulp_error(T got, WiderOf<T> exact) {
  using W = WiderOf<T>;
  constexpr double kWrong = std::numeric_limits<double>::infinity();
  if (std::isnan(exact) || std::isnan(got)) return std::isnan(exact) && std::isnan(got) ? 0 : kWrong;
  const T rounded = static_cast<T>(exact);
  if (exact == 0 || std::isinf(exact) || got == rounded) {
    return got == rounded && std::signbit(got) == std::signbit(exact) ? 0 : kWrong;
  }
  // An overflow next to the largest value is an error of few ulps: count infinity as the next power of two.
  const W value = std::isinf(got)
                      ? std::copysign(std::ldexp(W(1), std::numeric_limits<T>::max_exponent), W(got))
                      : W(got);
  const int exponent = std::max(std::ilogb(exact), std::numeric_limits<T>::min_exponent - 1);
  const W ulp = std::ldexp(W(1), exponent - std::numeric_limits<T>::digits + 1);
  return static_cast<double>(std::abs(value - exact) / ulp);
}

template <typename T>
std::vector<T> special_values() {
  using L = std::numeric_limits<T>;
  std::vector<T> values = {0,
                           L::denorm_min(),
                           L::min(),
                           L::min() / 2,
                           L::epsilon(),
                           T(0.5),
                           T(0.75),
                           1,
                           T(1.5),
                           2,
                           T(2.5),
                           3,
                           4,
                           5,
                           T(1e10),
                           L::max(),
                           L::max() / 2,
                           L::infinity(),
                           L::quiet_NaN(),
                           1 - L::epsilon() / 2,
                           1 + L::epsilon(),
                           127,
                           128,
                           129,
                           126,
                           149,
                           150,
                           1023,
                           1024,
                           1074,
                           1075,
                           T(88.72284),
                           T(89.41599),
                           T(709.782712893384),
                           T(710.4758600739439),
                           std::numbers::pi_v<T>,
                           std::numbers::pi_v<T> / 2,
                           std::numbers::e_v<T>};
  const std::size_t count = values.size();
  for (std::size_t i = 0; i < count; ++i) values.push_back(-values[i]);
  return values;
}

/// `count` values: the specials, all exponents evenly, the range [-limit, limit] evenly and at random.
template <typename T>
std::vector<T> sweep(std::size_t count, double limit) {
  std::vector<T> values = special_values<T>();
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> range(-limit, limit);
  std::uniform_real_distribution<double> unit(-1.2, 1.2);
  const Bits<T> step = static_cast<Bits<T>>(~Bits<T>(0) / (count / 2)) | 1;
  Bits<T> bits = 0;
  values.reserve(count);
  while (values.size() < count) {
    values.push_back(std::bit_cast<T>(bits));
    values.push_back(static_cast<T>(values.size() % 4 == 0 ? range(random) : unit(random)));
    bits += step;
  }
  values.resize(count);
  return values;
}

template <typename T>
struct UnaryCase {
  const char* name;
  EmitBody emit;
  WiderOf<T> (*reference)(WiderOf<T>);
  /// Inputs concentrate here; inputs past `domain` are not compared.
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

template <typename T, Level on>
struct Setup {
  using Element = T;
  static constexpr Level level = on;
};
template <typename T>
class VectorMathTest : public testing::Test {};
using Setups = testing::Types<Setup<float, Level::native>, Setup<double, Level::native>,
                              Setup<float, Level::baseline>, Setup<double, Level::baseline>>;
TYPED_TEST_SUITE(VectorMathTest, Setups);

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

/// All pairs of the specials, then pairs whose power is finite mostly.
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
  const bool quotient = TypeParam::level == Level::native && sizeof(T) == 4;  // where division is cheap
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
      EXPECT_EQ(got[i], a[i] < 0 ? T(0) : T(2)) << a[i];  // gelu multiplies it by what may be large
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
      // Of zeros of both signs an extreme may give either.
      if (std::string_view(test.name).ends_with("_nan") && a[i] == 0 && b[i] == 0 && got[i] == 0) continue;
      ASSERT_EQ(std::bit_cast<Bits<T>>(got[i]), std::bit_cast<Bits<T>>(expected))
          << test.name << "(" << a[i] << ", " << b[i] << ") = " << got[i] << ", not " << expected;
    }
  }
}

/// What is computed without the instruction is what the C library gives: products whose error is all that is left of them, sums in
/// which either part vanishes, and signed zeros, infinities and NaN. A sum that is rounded twice may be the neighbour, where it lies
/// next to the middle of two numbers. In f64 factors and products stay where no part of them over- or underflows.
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
    // What lies on a value, in the middle between it and the next one, and beside both.
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
    if (dtype == f8e5m2) continue;  // has infinities, and is widened as a half
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
    // The quiet bit of a NaN is the target's choice.
    const bool nan = (i & 0x7fff) > 0x7c00;
    ASSERT_EQ(back[i] | (nan ? 0x200 : 0), all[i] | (nan ? 0x200 : 0));
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
