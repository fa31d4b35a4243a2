// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "cli/measure.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "cli/tensor.h"
#include "core/run/pool.h"
#include "core/support/abi.h"

namespace ferrite::cli {
namespace {

using Clock = std::chrono::steady_clock;

// Rates rise with the size until a cache is full. The largest is beyond any cache.
constexpr int64_t least_bytes = 64 << 10, most_bytes = 256 << 20;
constexpr int64_t product_sizes[] = {256, 512, 1024, 1536};
constexpr double seconds_each = 0.15;  // enough for the clock and the caches to settle
constexpr int least_runs = 3;

/// The least seconds that a run of the graph takes, over runs of some tenths of a second.
Result<double> time_graph(const core::Session& session, core::CompileOptions options,
                          const std::string& text) {
  core::graph::ParseOptions parse;
  parse.file = "measure";
  parse.registry = &session.registry().ops();
  FE_TRY(auto source, core::parse_source(text, parse));
  core::Ledger ledger;
  core::Program program;
  FE_TRY(program.compilation, core::compile(std::move(source), session.registry(), options, ledger));
  core::run::Executable::Context context(*program.compilation.executable);
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
  double least = 0;
  const auto begin = Clock::now();
  for (int run = 0;
       run < least_runs || std::chrono::duration<double>(Clock::now() - begin).count() < seconds_each;
       ++run) {
    const auto start = Clock::now();
    FE_CHECK(program.run(&context, in, out));
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    least = run == 0 ? seconds : std::min(least, seconds);
  }
  return least;
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

}  // namespace

Result<fe_target_numbers> measure_numbers(const core::Session& session, const core::CompileOptions& options,
                                          Progress& progress) {
  using core::schedule::Feature;
  auto result = core::abi::sized<fe_target_numbers>();
  result.workers = core::run::Pool::process().workers();  // of the machine: programs are cut for all of it
  FE_TRY(const auto devices, core::run::open_devices(options.device, session.registry()));
  const int64_t step = std::max<int64_t>(1, core::run::numbers_of(devices).line_bytes / 4);
  // What is measured is not to depend on what was measured before.
  auto one = options;
  one.threads = 1;
  one.without.add(Feature::split);
  progress.update("measuring one worker");
  FE_TRY(const double read, time_graph(session, one, read_text(most_bytes / 4)));
  result.bandwidth = std::llround(static_cast<double>(most_bytes) / read);
  FE_TRY(const double apart, time_graph(session, one, stride_text(most_bytes / 4 / step, step)));
  result.uncoalesced = std::llround(apart / read * static_cast<double>(step));
  constexpr int chain = 48, near = 16 << 10;  // elements that stay in a cache
  FE_TRY(const double computed, time_graph(session, one, chain_text(near, chain)));
  result.operations = std::llround(chain * static_cast<double>(near) / computed);
  for (const auto& number : core::run::number_table)
    if (number.is_measured)
      result.*number.stated = std::clamp<int64_t>(result.*number.stated, 1, number.most);
  return result;
}

Result<core::observe::Peaks> measure_peaks(const core::Session& session, const core::CompileOptions& options,
                                           Progress& progress) {
  core::observe::Peaks peaks;
  for (const int64_t size : product_sizes) {
    progress.update(fmt::format("measuring a product of {0} x {0}", size));
    FE_TRY(const double seconds, time_graph(session, options, product_text(size)));
    const auto edge = static_cast<double>(size);
    peaks.operations = std::max(peaks.operations, 2 * edge * edge * edge / seconds);
  }
  for (int64_t bytes = least_bytes; bytes <= most_bytes; bytes *= 4) {
    progress.update(fmt::format("measuring {} KiB", bytes >> 10));
    FE_TRY(const double copied, time_graph(session, options, copy_text(bytes / 8)));
    FE_TRY(const double read, time_graph(session, options, read_text(bytes / 4)));
    peaks.bandwidth.push_back({bytes, static_cast<double>(bytes) / std::min(copied, read)});
  }
  // Small sizes are slowed down by the launch, which is no limit of the memory.
  for (size_t k = peaks.bandwidth.size(); k-- > 1;)
    peaks.bandwidth[k - 1].per_second =
        std::max(peaks.bandwidth[k - 1].per_second, peaks.bandwidth[k].per_second);
  return peaks;
}

}  // namespace ferrite::cli
