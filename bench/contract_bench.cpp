// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Contract kernels on one core, beside the machine's measured peak of fused multiply-adds.
//   flops: floating-point operations a second, over all runs; best_flops: of the fastest run
//   best/peak_%: its share of the measured peak; compile_ms: processor time from kernel to machine code
#include <benchmark/benchmark.h>
#include <llvm/ExecutionEngine/Orc/ThreadSafeModule.h>

#include <chrono>
#include <cstdlib>

#include "tests/backends/contract_kernels.h"
#include "tests/backends/packed.h"

namespace ferrite::contract_test {
namespace {

/// Multiply-adds a second of one core, two operations each: 24 independent chains of the widest vector,
/// compiled here.
double measured_peak() {
  static const double peak = [] {
    const auto target = host_target();
    auto context = std::make_unique<llvm::LLVMContext>();
    auto module = std::make_unique<llvm::Module>("peak", *context);
    loop::Kernel empty;
    constexpr int chains = 12;
    const auto lanes = target.lanes(4);
    {
      emitter::KernelContext kernel(*module, target, empty, "entry");
      auto& b = kernel.builder;
      auto* vector = llvm::FixedVectorType::get(b.getFloatTy(), lanes);
      auto* from = b.GetInsertBlock();
      auto* body = kernel.block("body");
      auto* exit = kernel.block("exit");
      b.CreateBr(body);
      b.SetInsertPoint(body);
      auto* count = b.CreatePHI(b.getInt64Ty(), 2);
      count->addIncoming(kernel.begin, from);
      std::vector<llvm::PHINode*> sums;
      for (int k = 0; k < chains; ++k) {
        sums.push_back(b.CreatePHI(vector, 2));
        sums.back()->addIncoming(llvm::ConstantFP::get(vector, k), from);
      }
      auto* factor = llvm::ConstantFP::get(vector, 0.999);
      std::vector<llvm::Value*> next;
      for (int k = 0; k < chains; ++k) {
        next.push_back(b.CreateIntrinsic(llvm::Intrinsic::fma, {vector},
                                         {sums[static_cast<size_t>(k)], factor, factor}));
        sums[static_cast<size_t>(k)]->addIncoming(next.back(), body);
      }
      auto* step = b.CreateAdd(count, b.getInt64(1));
      count->addIncoming(step, body);
      b.CreateCondBr(b.CreateICmpSLT(step, kernel.end), body, exit);
      b.SetInsertPoint(exit);
      for (int k = 0; k < chains; ++k)
        b.CreateAlignedStore(next[static_cast<size_t>(k)],
                             b.CreateConstInBoundsGEP1_64(vector, kernel.workspace, static_cast<uint64_t>(k)),
                             llvm::Align(4));
      b.CreateRetVoid();
    }
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    auto jit = llvm::cantFail(llvm::orc::LLJITBuilder().create());
    module->setDataLayout(jit->getDataLayout());
    llvm::cantFail(jit->addIRModule(llvm::orc::ThreadSafeModule(std::move(module), std::move(context))));
    auto entry = llvm::cantFail(jit->lookup("entry")).toPtr<Entry>();
    std::vector<char> workspace(chains * 64);
    int64_t error = 0;
    double best = 0;
    constexpr int64_t turns = 200'000;
    for (int repeat = 0; repeat < 300; ++repeat) {
      const auto start = std::chrono::steady_clock::now();
      entry(nullptr, 0, turns, 0, workspace.data(), &error);
      const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      best = std::max(best, 2.0 * chains * lanes * turns / seconds);
    }
    return best;
  }();
  return peak;
}

void run(benchmark::State& state, const Builder& built) {
  const auto target = host_target();
  loop::Kernel kernel = built.kernel;
  std::vector<std::unique_ptr<char, decltype(&std::free)>> memory;
  std::vector<void*> arguments;
  auto allocate = [&](size_t bytes) {
    memory.emplace_back(static_cast<char*>(std::aligned_alloc(64, (bytes + 127) / 64 * 64)), &std::free);
    return memory.back().get();
  };
  for (auto& buffer : kernel.buffers) {
    auto* data = allocate(static_cast<size_t>(buffer.bytes()));
    for (int64_t e = 0; e < buffer.extent(); ++e)
      write(buffer.dtype, data, e, static_cast<double>(e % 17) / 17);
    arguments.push_back(data);
  }
  for (const auto& layout : wanted_layouts(target, kernel)) {
    loop::Packing packing;
    auto bytes = kernel_test::pack(layout, kernel.buffers[layout.buffer],
                                   static_cast<char*>(arguments[layout.buffer]), packing, kernel.pool);
    auto* data = allocate(bytes.size());
    std::copy(bytes.begin(), bytes.end(), data);
    arguments[layout.buffer] = data;
    kernel.buffers[layout.buffer].packing = packing;
    kernel.buffers[layout.buffer].strides.clear();
  }
  double operations = 2;
  for (const auto& var : kernel.statements[0].vars) operations *= static_cast<double>(var.extent);
  if (std::getenv("FERRITE_BENCH_IR")) fputs(compile(target, kernel, true).text.c_str(), stderr);
  compile(target, kernel);
  auto compiled = compile(target, kernel);
  auto* workspace = allocate(static_cast<size_t>(compiled.workspace));
  int64_t error = 0;
  double best = 1e30;
  for (auto _ : state) {
    const auto start = std::chrono::steady_clock::now();
    compiled.entry(arguments.data(), 0, compiled.tasks, 0, workspace, &error);
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    benchmark::ClobberMemory();
  }
  state.counters["flops"] = benchmark::Counter(operations, benchmark::Counter::kIsIterationInvariantRate);
  state.counters["best_flops"] = operations / best;
  state.counters["best/peak_%"] = 100 * operations / best / measured_peak();
  state.counters["tasks"] = static_cast<double>(compiled.tasks);
  state.counters["compile_ms"] = compiled.milliseconds;
}

/// rows x columns x depth; the columns' operand is constant, or an activation, or one with the depth
/// contiguous.
enum Columns { constant, activation, transposed };
void gemm(benchmark::State& state, int64_t batch, int64_t m, int64_t n, int64_t k, Columns columns,
          bool gelu) {
  Builder b;
  const bool transpose = columns == transposed;
  auto x = b.buffer(f32, FE_BUFFER_INPUT, {batch, m, k});
  std::vector<int64_t> dims =
      transpose ? std::vector<int64_t>{batch, n, k} : std::vector<int64_t>{batch, k, n};
  auto w = b.buffer(f32, columns == constant ? FE_BUFFER_CONSTANT : FE_BUFFER_INPUT, dims);
  auto bias = b.buffer(f32, FE_BUFFER_CONSTANT, {n});
  auto out = b.buffer(f32, FE_BUFFER_OUTPUT, {batch, m, n});
  auto v = b.begin(FE_STATEMENT_CONTRACT, {batch, m, n}, {k});
  auto right = transpose ? std::vector<Expr>{v[0], v[2], v[3]} : std::vector<Expr>{v[0], v[3], v[2]};
  auto sum = b.contract(b.load(x, {v[0], v[1], v[3]}), b.load(w, right));
  sum = b.prim(Prim::add_, sum, b.load(bias, {v[2]}));
  if (gelu) {
    auto gate =
        b.prim(Prim::add_, b.prim(Prim::erf_, b.prim(Prim::mul_, sum, b.constant(f32, 0.70710678118654752))),
               b.constant(f32, 1));
    sum = b.prim(Prim::mul_, b.prim(Prim::mul_, sum, gate), b.constant(f32, 0.5));
  }
  b.store(out, {v[0], v[1], v[2]}, sum);
  run(state, b);
}

void conv(benchmark::State& state, int64_t in, int64_t out_channels, int64_t size, int64_t kernel,
          int64_t stride, bool channels_last = false) {
  Builder b;
  const int64_t pad = kernel / 2, out_size = (size + 2 * pad - kernel) / stride + 1;
  auto& pool = b.kernel.pool;
  auto order = [&](auto c, auto y, auto x) {
    using T = decltype(c);
    return channels_last ? std::vector<T>{y, x, c} : std::vector<T>{c, y, x};
  };
  auto x = b.buffer(f32, FE_BUFFER_INPUT, order(in, size, size));
  auto w = b.buffer(f32, FE_BUFFER_CONSTANT, {out_channels, in, kernel, kernel});
  auto bias = b.buffer(f32, FE_BUFFER_CONSTANT, {out_channels});
  auto out = b.buffer(f32, FE_BUFFER_OUTPUT, order(out_channels, out_size, out_size));
  auto v = b.begin(FE_STATEMENT_CONTRACT, {out_channels, out_size, out_size}, {in, kernel, kernel});
  auto position = [&](Expr o, Expr k) { return pool.add(pool.add(pool.mul(o, stride), k), -pad); };
  auto row = position(v[1], v[4]), column = position(v[2], v[5]);
  OpId mask = none, zero = none;
  if (pad) {
    auto inside = [&](Expr index) {
      auto value = b.index_value(index);
      return b.prim(Prim::and_, b.prim(Prim::ge_, value, b.constant(i64, 0)),
                    b.prim(Prim::lt_, value, b.constant(i64, static_cast<double>(size))));
    };
    mask = b.prim(Prim::and_, inside(row), inside(column));
    zero = b.constant(f32, 0);
  }
  auto image = b.load(x, order(v[3], row, column), mask, zero);
  auto sum = b.contract(image, b.load(w, {v[0], v[3], v[4], v[5]}), FE_CONTRACT_CONV);
  auto value = b.prim(Prim::max_, b.prim(Prim::add_, sum, b.load(bias, {v[0]})), b.constant(f32, 0));
  b.store(out, order(v[0], v[1], v[2]), value);
  run(state, b);
}

BENCHMARK_CAPTURE(gemm, square_128, 1, 128, 128, 128, constant, false);
BENCHMARK_CAPTURE(gemm, square_512, 1, 512, 512, 512, constant, false);
BENCHMARK_CAPTURE(gemm, square_1024, 1, 1024, 1024, 1024, constant, false);
BENCHMARK_CAPTURE(gemm, square_2048, 1, 2048, 2048, 2048, constant, false);
BENCHMARK_CAPTURE(gemm, linear_128x384x384, 1, 128, 384, 384, constant, false);
BENCHMARK_CAPTURE(gemm, linear_128x1536x384_gelu, 1, 128, 1536, 384, constant, true);
BENCHMARK_CAPTURE(gemm, linear_1024x384x1536, 1, 1024, 384, 1536, constant, false);
BENCHMARK_CAPTURE(gemm, linear_1x1000x2048, 1, 1, 1000, 2048, constant, false);
BENCHMARK_CAPTURE(gemm, scores_12x128x128x32, 12, 128, 128, 32, transposed, false);
BENCHMARK_CAPTURE(gemm, values_12x128x32x128, 12, 128, 32, 128, activation, false);
BENCHMARK_CAPTURE(gemm, activations_512, 1, 512, 512, 512, activation, false);
BENCHMARK_CAPTURE(conv, k3_64_64_56, 64, 64, 56, 3, 1);
BENCHMARK_CAPTURE(conv, k3_128_128_28, 128, 128, 28, 3, 1);
BENCHMARK_CAPTURE(conv, k3_256_256_14, 256, 256, 14, 3, 1);
BENCHMARK_CAPTURE(conv, k3_512_512_7, 512, 512, 7, 3, 1);
BENCHMARK_CAPTURE(conv, k1_64_256_56, 64, 256, 56, 1, 1);
BENCHMARK_CAPTURE(conv, k1_256_64_56, 256, 64, 56, 1, 1);
BENCHMARK_CAPTURE(conv, k1_1024_256_14, 1024, 256, 14, 1, 1);
BENCHMARK_CAPTURE(conv, k1_256_512_56_stride2, 256, 512, 56, 1, 2);
BENCHMARK_CAPTURE(conv, k7_3_64_224_stride2, 3, 64, 224, 7, 2);
BENCHMARK_CAPTURE(conv, k3_128_128_56_stride2, 128, 128, 56, 3, 2);
BENCHMARK_CAPTURE(conv, k3_64_64_56_channels_last, 64, 64, 56, 3, 1, true);

}  // namespace
}  // namespace ferrite::contract_test

BENCHMARK_MAIN();
