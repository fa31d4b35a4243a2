// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Functions of the vector math compiled with the JIT, and the inputs for their tests.
#pragma once

#include <gtest/gtest.h>
#include <llvm/ExecutionEngine/Orc/LLJIT.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/TargetParser/Host.h>
#include <llvm/Transforms/InstCombine/InstCombine.h>
#include <llvm/Transforms/Scalar/EarlyCSE.h>

#include <bit>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <numbers>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "ferrite/emitter/vector_math.h"

namespace ferrite::vector_math_test {

using emitter::MathInstructions;
using emitter::VectorMath;
using llvm::Value;

using EmitBody = std::function<Value*(VectorMath&, llvm::IRBuilder<>&, Value* a, Value* b)>;
/// (a, b, result, count): count elements, a multiple of the lanes.
using KernelFunction = void (*)(const void*, const void*, void*, std::int64_t);

/// A compiled loop `result[i] = body(a[i], b[i])` and the JIT that owns it.
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

/// The target of the code: this machine, or the oldest of its kind, which neither fuses multiply and add nor
/// rounds to integers.
enum class Level { native, baseline };

/// Code may call the C library if `calls` is set; otherwise such code is not linked.
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
  // There are no initialisers, and support for them would need the process's symbols.
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
using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;

template <typename T>
constexpr unsigned kLanes = sizeof(T) == 4 ? 16 : 4;

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

/// `count` values: the special values, all exponents evenly, and the range [-limit, limit] evenly and at
/// random.
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

template <typename T, Level on>
struct Setup {
  using Element = T;
  static constexpr Level level = on;
};
/// Results for each float type, on each level.
template <typename T>
class VectorMathTest : public testing::Test {};
using Setups = testing::Types<Setup<float, Level::native>, Setup<double, Level::native>,
                              Setup<float, Level::baseline>, Setup<double, Level::baseline>>;
TYPED_TEST_SUITE(VectorMathTest, Setups);

}  // namespace ferrite::vector_math_test
