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

// Rates rise with the size until a cache is full. The largest is beyond any cache.
constexpr int64_t least_bytes = 64 << 10, most_bytes = 256 << 20;
constexpr int64_t product_sizes[] = {256, 512, 1024, 1536};
constexpr double seconds_each = 0.15;  // enough for the clock and the caches to settle
constexpr size_t least_runs = 4;

/// More is no noise of a machine that does nothing else.
constexpr double most_waited = 0.05, most_apart = 0.1;
constexpr double most_repeated = 5;  // seconds, in all

/// Seconds that all threads of this process wanted to run and had no processor, as far as the system counts them.
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
/// Rows, so that workers have something to share.
std::string read_text(int64_t elements) {
  return fmt::format(
      "ferrite graph 0\ngraph @read(%x: f32[64,{}]) -> (%y \"y\") {{\n"
      "  %y = reduce_sum(%x) {{axes = [1], keepdims = false}}\n}}\n",
      elements / 64);
}
/// One element of each `step`, so many in all.
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
/// A chain of `count` maps, each of what the one before makes.
std::string maps_text(int64_t elements, size_t count) {
  std::string body;
  for (size_t k = 0; k < count; ++k) body += fmt::format("  %v{} = tanh(%v{})\n", k + 1, k);
  return fmt::format("ferrite graph 0\ngraph @maps(%v0: f32[{}]) -> (%v{} \"y\") {{\n{}}}\n", elements, count,
                     body);
}

/// The nearest power of two: no two measurements agree, and the next one is to give the same number, so that it makes the same kernels.
int64_t rounded_nanoseconds(double seconds) {
  return std::llround(std::exp2(std::round(std::log2(std::max(1.0, seconds * 1e9)))));
}

/// Sets `launch_ns` and `join_ns` to what decisions take them for: what a kernel that is divided has to save, and the work with which
/// one worker is done before dividing it pays. Both are more than handing over a kernel and waiting for all workers: a code generator
/// divides no kernel whose shares would not outlast the waking of a worker. So sums of rows, because points of decisions are f32 that
/// are read, are tried, each twice as large as the one before, until they take clearly less on all workers than on one: `launch_ns` is
/// what the first of these takes on all, `join_ns` what the one before took on one. Where no workers share a launch, `launch_ns` is
/// what a tiny kernel more takes in a chain, and `join_ns` is not measured. Neither is where the device makes other kernels of these
/// graphs, or workers never help because something else has the processors.
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
  int64_t launch = 0, join = 0;  // by the last size; 0: it did not pay
  for (int64_t elements = least; elements <= most; elements *= 2) {
    FE_TRY(const double alone, meter.time(options, read_text(elements), 1));
    FE_TRY(const double together, meter.time(all, read_text(elements), 1));
    if (alone == 0 || together == 0) return {};
    const bool pays = before > 0 && together < clearly * alone;
    if (pays && launch > 0) {  // twice in a row; once may be a worker that was held up when it was alone
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
  FE_CHECK(program.run(&context, in, out));  // memory is touched, and threads are awake
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
  // What is measured is not to depend on what was measured before.
  auto one = options;
  one.threads = 1;
  one.without.add(Feature::split);
  // What is seen of a device with memory of its own is all its workers together, behind copies; how many it has, and what one does, it
  // states.
  const bool is_host = devices.back()->host_memory;
  if (is_host) {
    meter.show("measuring one worker");
    result.workers =
        core::runtime::Pool::process().workers();  // of the machine: programs are cut for all of it
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
  // Small sizes are slowed down by the launch, which is no limit of the memory.
  for (size_t k = peaks.bandwidth.size(); k-- > 1;)
    peaks.bandwidth[k - 1].per_second =
        std::max(peaks.bandwidth[k - 1].per_second, peaks.bandwidth[k].per_second);
  return peaks;
}

}  // namespace ferrite::cli
