// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tools/cli/measure.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <vector>

#include "core/support/abi/abi.h"
#include "ferrite/counted.hpp"
#include "runtime/pool.h"
#include "tools/cli/tensor.h"

namespace ferrite::cli {
namespace {

using Clock = std::chrono::steady_clock;

// Rates rise with the size until a cache is full. The largest size exceeds any cache.
constexpr int64_t least_bytes = 64 << 10, most_bytes = 256 << 20;
constexpr int64_t product_sizes[] = {256, 512, 1024, 1536};
constexpr double seconds_each = 0.15;  // enough for the clock and the caches to settle
constexpr size_t least_runs = 4;

/// Larger values are not the noise of an otherwise idle machine.
constexpr double most_waited = 0.05, most_apart = 0.1;
constexpr double most_repeated = 5;  // seconds, in total

/// The seconds during which threads of this process were ready but had no processor, as far as the system
/// counts them.
double waited_seconds() {
  double nanoseconds = 0;
  std::error_code failed;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task", failed)) {
    double ran = 0, waited = 0;
    if (std::ifstream(thread.path() / "schedstat") >> ran >> waited) nanoseconds += waited;
  }
  return nanoseconds * 1e-9;
}

std::string product_text(int64_t size) {
  return fmt::format(
      "ferrite graph 0\ngraph @product(%a: f32[{0},{0}], %b: f32[{0},{0}]) -> (%y \"y\") {{\n"
      "  %y = matmul(%a, %b)\n}}\n",
      size);
}
std::string copy_text(int64_t elements) {
  return fmt::format("ferrite graph 0\ngraph @copy(%x: f32[{}]) -> (%y \"y\") {{\n  %y = relu(%x)\n}}\n",
                     elements);
}
/// Sums of rows: several rows, so that workers can divide them.
std::string read_text(int64_t elements) {
  return fmt::format(
      "ferrite graph 0\ngraph @read(%x: f32[64,{}]) -> (%y \"y\") {{\n"
      "  %y = reduce_sum(%x) {{axes = [1], keepdims = false}}\n}}\n",
      elements / 64);
}
/// Reads one element out of each `step`, `elements` in total.
std::string stride_text(int64_t elements, int64_t step) {
  return fmt::format(
      "ferrite graph 0\ngraph @stride(%x: f32[64,{0},{1}]) -> (%y \"y\") {{\n"
      "  %s = slice(%x) {{starts = [0, 0, 0], sizes = [64, {0}, 1], strides = [1, 1, 1]}}\n"
      "  %y = reduce_sum(%s) {{axes = [1, 2], keepdims = false}}\n}}\n",
      elements / 64, step);
}
/// A chain of `count` multiplications and additions of the input.
std::string chain_text(int64_t elements, int count) {
  std::string body;
  for (int k = 0; k < count; ++k)
    body += fmt::format("  %v{} = {}(%{}, %x)\n", k, k % 2 == 0 ? "mul" : "add",
                        k == 0 ? std::string("x") : fmt::format("v{}", k - 1));
  return fmt::format("ferrite graph 0\ngraph @chain(%x: f32[{}]) -> (%v{} \"y\") {{\n{}}}\n", elements,
                     count - 1, body);
}
/// A chain of `count` maps, each of which reads the result of the previous one.
std::string maps_text(int64_t elements, size_t count) {
  std::string body;
  for (size_t k = 0; k < count; ++k) body += fmt::format("  %v{} = tanh(%v{})\n", k + 1, k);
  return fmt::format("ferrite graph 0\ngraph @maps(%v0: f32[{}]) -> (%v{} \"y\") {{\n{}}}\n", elements, count,
                     body);
}

/// Rounds to the nearest power of two: no two measurements agree exactly, but repeated ones should give the
/// same number, and so the same kernels.
int64_t rounded_nanoseconds(double seconds) {
  return std::llround(std::exp2(std::round(std::log2(std::max(1.0, seconds * 1e9)))));
}

/// Measures `launch_ns` and `join_ns` in the sense of the scheduler: the time that dividing a kernel has to
/// save, and the work below which one worker finishes before dividing pays. Both are more than the cost of
/// handing over a kernel and waiting for all workers, because a code generator divides no kernel whose parts
/// would end before a worker wakes up. Sums of rows are therefore timed, because the scheduler counts work in
/// f32 elements that are read. Each is twice as large as the one before, until one takes clearly less time on
/// all workers than on one. `launch_ns` is the time of that one on all workers, and `join_ns` the time of the
/// one before on one worker. Where workers do not share launches, `launch_ns` is the time of an additional
/// tiny kernel in a chain, and `join_ns` is not measured. Neither is measured where the device makes other
/// kernels of these graphs, or where workers never help because other programs use the processors.
Result<void> measure_launches(Meter& meter, core::CompileOptions options, bool shares,
                              fe_target_numbers& numbers) {
  options.without.add(core::schedule::Feature::inline_producers);
  options.without.add(core::schedule::Feature::fuse);
  if (!shares) {
    constexpr size_t few = 16, many = 144;
    constexpr int64_t tiny = 16;  // elements
    FE_TRY(const double less, meter.time(options, maps_text(tiny, few), few));
    FE_TRY(const double more, meter.time(options, maps_text(tiny, many), many));
    if (less > 0 && more > less) numbers.launch_ns = rounded_nanoseconds((more - less) / (many - few));
    return {};
  }
  auto all = options;
  all.threads = 0;
  constexpr int64_t least = 1 << 13, most = 1 << 22;  // elements
  constexpr double clearly = 0.875;                   // of the time on one worker
  double before = 0;
  int64_t launch = 0, join = 0;  // for the last size; 0: dividing did not pay
  for (int64_t elements = least; elements <= most; elements *= 2) {
    FE_TRY(const double alone, meter.time(options, read_text(elements), 1));
    FE_TRY(const double together, meter.time(all, read_text(elements), 1));
    if (alone == 0 || together == 0) return {};
    const bool pays = before > 0 && together < clearly * alone;
    if (pays && launch > 0) {  // twice in a row: once may be due to a delay in the run on one worker
      numbers.launch_ns = launch;
      numbers.join_ns = join;
      return {};
    }
    launch = pays ? rounded_nanoseconds(together) : 0;
    join = pays ? rounded_nanoseconds(before) : 0;
    before = alone;
  }
  return {};
}

}  // namespace

bool Meter::Round::disturbed() const { return waited > most_waited || apart > most_apart; }

Result<Meter::Round> Meter::run(const core::Program& program, core::runtime::Executable::Context& context,
                                std::span<const void* const> in, std::span<void* const> out) {
  std::vector<double> times;
  const double before = waited_seconds();
  const auto begin = Clock::now();
  Round round;
  while (times.size() < least_runs || round.wall < seconds_each) {
    const auto start = Clock::now();
    FE_CHECK(program.run(&context, in, out));
    const auto end = Clock::now();
    times.push_back(std::chrono::duration<double>(end - start).count());
    round.wall = std::chrono::duration<double>(end - begin).count();
  }
  const auto half = times.begin() + static_cast<ptrdiff_t>(times.size() / 2);
  const auto [low, high] =
      std::minmax(*std::min_element(times.begin(), half), *std::min_element(half, times.end()));
  round.least = low;
  round.apart = high / low - 1;
  round.waited = (waited_seconds() - before) /
                 (round.wall * static_cast<double>(program.compilation.executable->workers));
  return round;
}

Result<double> Meter::time(const core::CompileOptions& options, const std::string& text, size_t kernels) {
  core::graph::ParseOptions parse;
  parse.file = "measure";
  parse.registry = &session_.registry().ops();
  FE_TRY(auto source, core::parse_source(text, parse));
  core::Ledger ledger;
  core::Program program;
  FE_TRY(program.compilation, core::compile(std::move(source), session_.registry(), options, ledger));
  if (kernels > 0 && program.compilation.stats.kernels != kernels) return 0.0;
  core::runtime::Executable::Context context(*program.compilation.executable);
  std::vector<Tensor> inputs, outputs;
  std::vector<const void*> in;
  std::vector<void*> out;
  for (const auto& port : program.inputs()) {
    FE_TRY(auto tensor, Tensor::make(port.dtype, port.dims));
    in.push_back(inputs.emplace_back(std::move(tensor)).data());
  }
  for (const auto& port : program.outputs()) {
    FE_TRY(auto tensor, Tensor::make(port.dtype, port.dims));
    out.push_back(outputs.emplace_back(std::move(tensor)).data());
  }
  FE_CHECK(program.run(&context, in, out));  // a first run touches the memory and wakes the threads
  FE_TRY(auto round, run(program, context, in, out));
  double least = round.least;
  while (round.disturbed() && repeated_ < most_repeated) {
    repeated_ += round.wall;
    FE_TRY(round, run(program, context, in, out));
    least = std::min(least, round.least);
  }
  ++measured_;
  if (round.disturbed()) {
    ++disturbed_;
    waited_ = std::max(waited_, round.waited);
    apart_ = std::max(apart_, round.apart);
  }
  return least;
}

std::optional<Error> Meter::disturbance() const {
  if (disturbed_ == 0) return std::nullopt;
  return error(
      FE_EINVALID, "FE-T48",
      "something else kept the machine busy at {} of {}: threads waited for a processor for up to "
      "{:.0f} % of the time, and times of the same kernel were up to {:.0f} % apart; rates may be too low, "
      "so measure again when nothing else runs",
      disturbed_, counted(measured_, "measurement"), 100 * waited_, 100 * apart_);
}

Result<fe_target_numbers> measure_numbers(Meter& meter, const core::CompileOptions& options) {
  using core::schedule::Feature;
  auto result = core::abi::sized<fe_target_numbers>();
  FE_TRY(const auto devices, core::runtime::open_devices(options.device, meter.session().registry()));
  // The results must not depend on earlier measurements.
  auto one = options;
  one.threads = 1;
  one.without.add(Feature::split);
  // For a device with memory of its own, only the performance of all its workers together can be measured,
  // including copies. The device itself states the number of workers and the performance of one.
  const bool is_host = devices.back()->host_memory;
  if (is_host) {
    meter.show("measuring one worker");
    result.workers =
        // of the machine: programs are divided for all of its workers
        core::runtime::Pool::process().workers();
    const int64_t step = std::max<int64_t>(1, core::runtime::numbers_of(devices).line_bytes / 4);
    FE_TRY(const double read, meter.time(one, read_text(most_bytes / 4)));
    result.bandwidth = std::llround(static_cast<double>(most_bytes) / read);
    FE_TRY(const double apart, meter.time(one, stride_text(most_bytes / 4 / step, step)));
    result.uncoalesced = std::llround(apart / read * static_cast<double>(step));
    constexpr int chain = 48, near = 16 << 10;  // elements that stay in a cache
    FE_TRY(const double computed, meter.time(one, chain_text(near, chain)));
    result.operations = std::llround(chain * static_cast<double>(near) / computed);
  }
  meter.show("measuring launches");
  FE_CHECK(measure_launches(meter, one, is_host && result.workers > 1, result));
  for (const auto& number : core::runtime::number_table)
    if (number.is_measured && result.*number.stated != 0)
      result.*number.stated = std::clamp<int64_t>(result.*number.stated, 1, number.most);
  return result;
}

Result<core::observe::Peaks> measure_peaks(Meter& meter, const core::CompileOptions& options) {
  core::observe::Peaks peaks;
  for (const int64_t size : product_sizes) {
    meter.show(fmt::format("measuring a product of {0} x {0}", size));
    FE_TRY(const double seconds, meter.time(options, product_text(size)));
    const auto edge = static_cast<double>(size);
    peaks.operations = std::max(peaks.operations, 2 * edge * edge * edge / seconds);
  }
  for (int64_t bytes = least_bytes; bytes <= most_bytes; bytes *= 4) {
    meter.show(fmt::format("measuring {} KiB", bytes >> 10));
    FE_TRY(const double copied, meter.time(options, copy_text(bytes / 8)));
    FE_TRY(const double read, meter.time(options, read_text(bytes / 4)));
    peaks.bandwidth.push_back({bytes, static_cast<double>(bytes) / std::min(copied, read)});
  }
  // The launch dominates small sizes, which says nothing about the memory; a smaller size is at least as fast
  // as a larger one.
  for (size_t k = peaks.bandwidth.size(); k-- > 1;)
    peaks.bandwidth[k - 1].per_second =
        std::max(peaks.bandwidth[k - 1].per_second, peaks.bandwidth[k].per_second);
  return peaks;
}

}  // namespace ferrite::cli
