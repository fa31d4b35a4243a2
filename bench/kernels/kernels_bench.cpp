// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compares kernels that Ferrite compiles with the limits of the machine. Each kernel runs alternately with
// its floor, on the same memory.
//   ms, floor_ms: medians; best_ms, best_floor_ms: of the fastest run; of_floor: best_floor_ms / best_ms, at
//   most about 1
//   floor: the same bytes with plain stores (streaming: with stores that bypass the caches), or the time of a
//   product's multiply-adds at the measured peak (gflops_peak), or the same polynomial
//   hand_ms, best_hand_ms: of a hand-written loop with the same results, if there is one
// Usage: kernels_bench FOLDER [Google Benchmark's options]; the folder has the kernels' texts.
#include <benchmark/benchmark.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>

#include "ferrite/ferrite.hpp"
#include "floors.h"

namespace ferrite::bench {
namespace {

using Clock = std::chrono::steady_clock;

struct Free {
  void operator()(void* data) const { std::free(data); }
};
using Memory = std::unique_ptr<float, Free>;

/// Allocates in huge pages if the system has them, like Ferrite itself, for kernel and floor alike.
Memory allocate(int64_t count) {
  constexpr size_t page = 2 << 20;
  const size_t bytes = (static_cast<size_t>(count) * sizeof(float) + page - 1) / page * page;
  Memory memory(static_cast<float*>(std::aligned_alloc(page, bytes)));
  if (!memory) throw std::bad_alloc();
  madvise(memory.get(), bytes, MADV_HUGEPAGE);  // if this fails the pages are small, which is slower
  for (int64_t i = 0; i < count; ++i) memory.get()[i] = static_cast<float>(i % 1021) / 512 - 1;
  return memory;
}

double timed(const auto& work) {
  const auto start = Clock::now();
  work();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// A model with one kernel, and its memory.
class Kernel {
 public:
  Kernel(const std::string& path, int64_t threads) : session_(options(threads)) {
    ferrite_model* model = nullptr;
    detail::check_call(ferrite_model_load(session_.get(), path.c_str(), &model));
    model_.reset(model);
    for (uint64_t k = 0; k < ferrite_model_input_count(model); ++k)
      add(port(ferrite_model_input, k), input_tensors_, inputs_);
    for (uint64_t k = 0; k < ferrite_model_output_count(model); ++k)
      add(port(ferrite_model_output, k), output_tensors_, outputs_);
    run();  // compiles the kernel
  }
  void run() {
    std::vector<const DLTensor*> in;
    std::vector<DLTensor*> out;
    for (auto& tensor : input_tensors_) in.push_back(&tensor.value);
    for (auto& tensor : output_tensors_) out.push_back(&tensor.value);
    detail::check_call(ferrite_run(model_.get(), in.data(), in.size(), out.data(), out.size()));
  }
  /// Seconds of a run that follows another one, so that the worker threads are awake, as those of the floors
  /// are.
  double timed_run() {
    run();
    return timed([&] { run(); });
  }
  const float* input(size_t k) const { return k < inputs_.size() ? inputs_[k].get() : nullptr; }
  float* output() const { return outputs_[0].get(); }
  int64_t count(size_t k) const { return input_tensors_[k].count; }
  int64_t output_count() const { return output_tensors_[0].count; }
  std::span<const int64_t> dims(size_t k) const { return input_tensors_[k].dims; }

 private:
  struct Described {
    std::vector<int64_t> dims;
    int64_t count = 1;
    DLTensor value{};
  };
  static SessionOptions options(int64_t threads) {
    SessionOptions result;
    result.threads = threads;
    return result;
  }
  std::vector<int64_t> port(int32_t (*describe)(const ferrite_model*, uint64_t, ferrite_port*),
                            uint64_t k) const {
    auto port = detail::embedding_struct<ferrite_port>();
    detail::check_call(describe(model_.get(), k, &port));
    return {port.dims, port.dims + port.rank};
  }
  void add(const std::vector<int64_t>& dims, std::deque<Described>& tensors, std::vector<Memory>& memory) {
    auto& tensor = tensors.emplace_back();
    tensor.dims = dims;
    for (int64_t dim : dims) tensor.count *= dim;
    memory.push_back(allocate(std::max<int64_t>(16, tensor.count)));
    tensor.value.data = memory.back().get();
    tensor.value.device = {kDLCPU, 0};
    tensor.value.ndim = static_cast<int32_t>(dims.size());
    tensor.value.dtype = {kDLFloat, 32, 1};
    tensor.value.shape = tensor.dims.data();
  }

  Session session_;
  std::unique_ptr<ferrite_model, decltype(&ferrite_model_free)> model_{nullptr, ferrite_model_free};
  std::deque<Described> input_tensors_, output_tensors_;
  std::vector<Memory> inputs_, outputs_;
};

/// Measured times of one kernel or loop, in seconds.
class Times {
 public:
  void add(double seconds) { all_.push_back(seconds); }
  double median() {
    std::ranges::sort(all_);
    return all_[all_.size() / 2];
  }
  double least() const { return *std::ranges::min_element(all_); }

 private:
  std::vector<double> all_;
};

std::string folder;

void report(benchmark::State& state, Times& kernel, Times& floor) {
  state.counters["ms"] = kernel.median() * 1e3;
  state.counters["floor_ms"] = floor.median() * 1e3;
  state.counters["best_ms"] = kernel.least() * 1e3;
  state.counters["best_floor_ms"] = floor.least() * 1e3;
  state.counters["of_floor"] = floor.least() / kernel.least();
}

constexpr const char* no_floors = "the floors need AVX-512, or AVX2 with fused multiply-adds";

/// The memory traffic of a kernel over arrays: its input reads, and whether it writes as much.
struct Traffic {
  int reads = 1;
  bool writes = true;
};

/// One worker's range of some work.
using Work = std::function<void(int worker, int workers)>;

/// Measures a kernel next to a floor that reads `x` with `count` elements, and the second input if there are
/// two reads; and next to a hand-written loop with the same results and one with the same accesses only, if
/// they are given.
void memory(benchmark::State& state, Kernel& kernel, const float* x, int64_t count, Traffic traffic,
            const Work& by_hand = {}, const Work& accesses = {}) {
  const Floors* hand_written = floors();
  if (!hand_written) return state.SkipWithError(no_floors);
  const auto threads = static_cast<int>(state.range(0));
  // If the result is small, the floor writes none.
  const float* y = traffic.reads == 2 ? kernel.input(1) : nullptr;
  float* out = kernel.output();
  auto floor = [&](Store store) {
    return timed_on_threads(threads, [&](int worker, int workers) {
      if (traffic.writes) return hand_written->copy(x, y, out, count, store, worker, workers);
      float sum = hand_written->read(x, count, worker, workers);
      benchmark::DoNotOptimize(sum);
    });
  };
  Times kernels, plain, streaming, hand, alone;
  for (auto _ : state) {
    const double seconds = kernel.timed_run();
    kernels.add(seconds);
    plain.add(floor(Store::plain));
    streaming.add(floor(Store::streaming));
    if (accesses) alone.add(timed_on_threads(threads, accesses));
    if (by_hand) hand.add(timed_on_threads(threads, by_hand));  // last, because its results are compared
    state.SetIterationTime(seconds);
  }
  report(state, kernels, plain);
  state.counters["streaming_ms"] = streaming.median() * 1e3;
  state.counters["best_streaming_ms"] = streaming.least() * 1e3;
  if (by_hand) {
    state.counters["hand_ms"] = hand.median() * 1e3;
    state.counters["best_hand_ms"] = hand.least() * 1e3;
  }
  if (accesses) {
    state.counters["accesses_ms"] = alone.median() * 1e3;
    state.counters["best_accesses_ms"] = alone.least() * 1e3;
  }
  const double bytes = 4.0 * static_cast<double>(count) * (traffic.reads + (traffic.writes ? 1 : 0));
  state.counters["gb_s"] = bytes / kernels.median() * 1e-9;
}

void memory(benchmark::State& state, const char* name, Traffic traffic) {
  Kernel kernel(folder + "/" + name + ".fe", state.range(0));
  memory(state, kernel, kernel.input(0), kernel.count(0), traffic);
}

/// A hand-written loop that computes a worker's range of a kernel's results in `out`.
using ByHand = void (*)(const Floors& floors, const Kernel& kernel, float* out, int worker, int workers);

/// As above, with a hand-written loop, whose results differ by at most `bound`, and optionally one with the
/// same accesses only.
void memory_by_hand(benchmark::State& state, const char* name, Traffic traffic, ByHand by_hand, float bound,
                    ByHand accesses) {
  const Floors* hand_written = floors();
  if (!hand_written) return state.SkipWithError(no_floors);
  Kernel kernel(folder + "/" + name + ".fe", state.range(0));
  const Memory out = allocate(kernel.output_count());
  const auto work = [&](ByHand loop) -> Work {
    if (!loop) return {};
    return [&, loop](int worker, int workers) { loop(*hand_written, kernel, out.get(), worker, workers); };
  };
  memory(state, kernel, kernel.input(0), kernel.count(0), traffic, work(by_hand), work(accesses));
  kernel.run();  // the floor has overwritten the results
  for (int64_t i = 0; i < kernel.output_count(); ++i)
    if (!(std::abs(out.get()[i] - kernel.output()[i]) <= bound))
      return state.SkipWithError("the loop by hand computes something else");
}

void gelu_by_hand(const Floors& floors, const Kernel& kernel, float* out, int worker, int workers) {
  floors.gelu(kernel.input(0), out, kernel.count(0), worker, workers);
}
void transpose_add_by_hand(const Floors& floors, const Kernel& kernel, float* out, int worker, int workers) {
  const auto dims = kernel.dims(1);
  floors.transpose_add(kernel.input(0), kernel.input(1), out, dims[0], dims[1], worker, workers);
}
void transpose_add_accesses(const Floors& floors, const Kernel& kernel, float* out, int worker, int workers) {
  const auto dims = kernel.dims(1);
  floors.transpose_add_accesses(kernel.input(0), kernel.input(1), out, dims[0], dims[1], worker, workers);
}
void layer_norm_by_hand(const Floors& floors, const Kernel& kernel, float* out, int worker, int workers) {
  const auto dims = kernel.dims(0);
  floors.layer_norm(kernel.input(0), kernel.input(1), kernel.input(2), out, dims[0], dims[1], worker,
                    workers);
}
void softmax_by_hand(const Floors& floors, const Kernel& kernel, float* out, int worker, int workers) {
  const auto dims = kernel.dims(0);
  floors.softmax(kernel.input(0), out, dims[0], dims[1], worker, workers);
}
void few_rows_by_hand(const Floors& floors, const Kernel& kernel, float* out, int worker, int workers) {
  floors.few_rows(kernel.input(0), kernel.input(1), out, kernel.dims(0)[0], worker, workers);
}
void few_rows_transposed_by_hand(const Floors& floors, const Kernel& kernel, float* out, int worker,
                                 int workers) {
  floors.few_rows_transposed(kernel.input(0), kernel.input(1), out, kernel.dims(0)[0], worker, workers);
}

/// A folder that is removed at the end.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "kernels_bench_XXXXXX").string();
    if (!mkdtemp(name.data())) throw std::runtime_error("no folder could be made for a model");
    path_ = name;
  }
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;

  /// The text of a kernel: rows x size times a constant of size x size.
  std::string write_constant_product(int64_t rows, int64_t size) const {
    const int64_t count = size * size, bytes = count * static_cast<int64_t>(sizeof(float));
    const Memory weights = allocate(count);
    std::ofstream(path_ / "weights.bin", std::ios::binary)
        .write(reinterpret_cast<const char*>(weights.get()), bytes);
    const auto type = [&](int64_t first) {
      return "f32[" + std::to_string(first) + "," + std::to_string(size) + "]";
    };
    const auto file = path_ / "product.fe";
    std::ofstream(file) << "ferrite graph 0\ngraph @sgemm(%a: " << type(rows)
                        << ") -> (%out \"out\") {\n  #b = weight(\"weights.bin\", 0, " << bytes
                        << ") : " << type(size) << "\n  %out = matmul(%a, #b)\n}\n";
    return file.string();
  }

 private:
  std::filesystem::path path_;
};

/// Measures a product whose right operand is an input, or a constant that is packed at load.
void product(benchmark::State& state, int64_t size, bool constant) {
  const Floors* hand_written = floors();
  if (!hand_written) return state.SkipWithError(no_floors);
  const auto threads = static_cast<int>(state.range(0));
  std::string path = folder + "/sgemm_" + std::to_string(size) + ".fe";
  const ScratchFolder scratch;
  if (constant) path = scratch.write_constant_product(size, size);
  Kernel kernel(path, threads);
  const double operations = 2.0 * std::pow(static_cast<double>(size), 3);
  // Run the floor as long as the product: if a machine assigns its processors in time slices, a short floor
  // would fall between them.
  constexpr int64_t some = 1000;
  const auto turns = static_cast<int64_t>(some * operations / threads / hand_written->multiply_add(some));
  Times kernels, floor;
  for (auto _ : state) {
    const double seconds = kernel.timed_run();
    kernels.add(seconds);
    double done = 0;
    const double peak_seconds = timed_on_threads(threads, [&](int worker, int) {
      const double mine = hand_written->multiply_add(turns);
      if (worker == 0) done = mine;
    });
    floor.add(peak_seconds * operations / (done * threads));
    state.SetIterationTime(seconds);
  }
  report(state, kernels, floor);
  state.counters["gflops"] = operations / kernels.median() * 1e-9;
  state.counters["gflops_peak"] = operations / floor.median() * 1e-9;
}

/// Measures a product of few rows with a constant that is packed at load and read once.
void packed_rows(benchmark::State& state, int64_t rows) {
  constexpr int64_t size = 8192;
  const ScratchFolder scratch;
  Kernel kernel(scratch.write_constant_product(rows, size), state.range(0));
  const Memory beside = allocate(size * size);
  memory(state, kernel, beside.get(), size * size, {1, false});
}

void exp_in_cache(benchmark::State& state) {
  const Floors* hand_written = floors();
  if (!hand_written) return state.SkipWithError(no_floors);
  Kernel kernel(folder + "/exp_in_cache.fe", 1);
  const int64_t count = kernel.count(0);
  std::vector<float> expected(static_cast<size_t>(count));
  kernel.run();
  std::copy_n(kernel.output(), count, expected.begin());
  hand_written->exponential(kernel.input(0), kernel.output(), count);
  for (int64_t i = 0; i < count; ++i)
    if (std::abs(kernel.output()[i] - expected[static_cast<size_t>(i)]) >
        1e-6F * expected[static_cast<size_t>(i)])
      return state.SkipWithError("the floor computes something else");
  Times kernels, floor;
  for (auto _ : state) {
    const double seconds = kernel.timed_run();
    kernels.add(seconds);
    floor.add(timed([&] { hand_written->exponential(kernel.input(0), kernel.output(), count); }));
    state.SetIterationTime(seconds);
  }
  report(state, kernels, floor);
  state.counters["elements_s"] = static_cast<double>(count) / kernels.median();
}

constexpr Traffic one_read{}, two_reads{2, true}, reads_only{1, false};

void set_up() {
  for (const auto& [size, constant] :
       {std::pair(512, false), {1024, false}, {2048, false}, {512, true}, {1024, true}, {2048, true}}) {
    auto* row = benchmark::RegisterBenchmark(
        ((constant ? "sgemm_packed_" : "sgemm_") + std::to_string(size)).c_str(),
        [size = size, constant = constant](benchmark::State& state) { product(state, size, constant); });
    row->Arg(1)->Arg(2)->ArgName("threads")->UseManualTime()->Iterations(size > 1024 ? 25 : 200);
  }
  // In a product with few rows the matrix is read once, and it is nearly all of the traffic.
  struct Row {
    const char* name;
    Traffic traffic;
    ByHand by_hand = nullptr;
    float bound = 0;
    ByHand accesses = nullptr;
  };
  constexpr float few_rows_bound = 1e-2F;  // 1e-4 times the root of the depth, 8,192
  const Row rows[] = {{"copy", one_read},
                      {"exp_sum", two_reads},
                      {"gelu", one_read, gelu_by_hand, 2e-6F},
                      {"transpose_add", two_reads, transpose_add_by_hand, 0, transpose_add_accesses},
                      {"column_sum", reads_only},
                      {"full_sum", reads_only},
                      {"softmax", one_read, softmax_by_hand, 1e-6F},
                      {"layer_norm", one_read, layer_norm_by_hand, 1e-4F},
                      {"gemv", reads_only},
                      {"gemv_transposed", reads_only},
                      {"small_m", reads_only, few_rows_by_hand, few_rows_bound},
                      {"small_m_transposed", reads_only, few_rows_transposed_by_hand, few_rows_bound}};
  for (const auto& row : rows)
    benchmark::RegisterBenchmark(row.name,
                                 [row](benchmark::State& state) {
                                   if (row.by_hand)
                                     memory_by_hand(state, row.name, row.traffic, row.by_hand, row.bound,
                                                    row.accesses);
                                   else
                                     memory(state, row.name, row.traffic);
                                 })
        ->Arg(2)
        ->ArgName("threads")
        ->UseManualTime()
        ->Iterations(25);
  for (const auto& [name, count] : {std::pair("gemv_packed", 1), {"small_m_packed", 4}})
    benchmark::RegisterBenchmark(name,
                                 [count = count](benchmark::State& state) { packed_rows(state, count); })
        ->Arg(2)
        ->ArgName("threads")
        ->UseManualTime()
        ->Iterations(25);
  benchmark::RegisterBenchmark("exp_in_cache", exp_in_cache)->UseManualTime()->Iterations(2000);
}

}  // namespace
}  // namespace ferrite::bench

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (argc != 2) {
    std::fprintf(stderr, "kernels_bench: give the folder of the kernels' texts, then options\n");
    return 2;
  }
  ferrite::bench::folder = argv[1];
  ferrite::bench::set_up();
  try {
    benchmark::RunSpecifiedBenchmarks();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "kernels_bench: %s\n", error.what());
    return 3;
  }
  return 0;
}
