// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// random_graphs: random graphs, compiled with and without fusion, against the interpreter, which runs them without any pass.
#include <sys/wait.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <cmath>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>

#include "cli/npy.h"
#include "core/graph/parse.h"
#include "core/session.h"
#include "graph_generator.h"

namespace ferrite::random_graphs {
namespace {

using Bytes = std::vector<std::byte>;

constexpr unsigned seconds_a_graph = 30;
constexpr uint64_t graphs_a_process = 100;

struct Options {
  uint64_t count = 300, seed = 1;
  std::string device = "cpu", dump, json, commit;
  std::optional<int64_t> policy;  ///< seed of the policy that decides at random what is fused
  bool pad = false;               ///< rows of everything between kernels are padded, however small it is
  bool print = false;
};

/// "" or what is wrong with one output.
std::string difference(const core::run::PortInfo& port, const Bytes& actual, const Bytes& expected,
                       double absolute) {
  const auto width = static_cast<size_t>(bits_of(port.dtype) / 8);
  const auto count = static_cast<int64_t>(expected.size() / width);
  const double relative = relative_tolerance(port.dtype);
  int64_t wrong = 0, worst = 0;
  double excess = -1, allowed = 0;
  for (int64_t k = 0; k < count; ++k) {
    const double a = number_at(port.dtype, actual.data(), k), b = number_at(port.dtype, expected.data(), k);
    const auto at = static_cast<size_t>(k) * width;
    double off = 0;
    if (!is_float(port.dtype)) {
      // Bits, because a double does not hold every i64.
      if (std::memcmp(actual.data() + at, expected.data() + at, width) != 0) off = HUGE_VAL;
    } else if (!(a == b || (std::isnan(a) && std::isnan(b)))) {
      const double tolerance = absolute + relative * std::fabs(b);
      off = std::fabs(a - b);
      if (std::isfinite(a) && std::isfinite(b) && off <= tolerance) off = 0;
      if (std::isnan(off)) off = HUGE_VAL;
    }
    if (off == 0) continue;
    ++wrong;
    if (off > excess) worst = k, excess = off, allowed = absolute + relative * std::fabs(b);
  }
  if (wrong == 0) return {};
  return fmt::format(
      "output {} {}[{}]: {} of {} elements are off, the worst at {}: {}, expected {} (bound {:.3g})",
      port.name, name_of(port.dtype), fmt::join(port.dims, ","), wrong, count, worst,
      number_at(port.dtype, actual.data(), worst), number_at(port.dtype, expected.data(), worst), allowed);
}

struct Results {
  std::vector<core::run::PortInfo> ports;
  std::vector<Bytes> tensors;
};

core::Result<Results> evaluate(const core::Session& session, const GeneratedGraph& graph,
                               const std::vector<Bytes>& inputs, const core::CompileOptions& options) {
  core::graph::ParseOptions parse;
  parse.registry = &session.registry().ops();
  FE_TRY(auto parsed, core::graph::parse(graph.text, parse));
  core::Program program;
  FE_TRY(program.compilation, core::compile(std::move(parsed), session.registry(), options, program.ledger));
  Results results;
  results.ports = program.outputs();
  std::vector<const void*> in;
  std::vector<void*> out;
  for (const auto& input : inputs) in.push_back(input.data());
  for (const auto& port : results.ports) {
    // Whatever is not written shows.
    results.tensors.emplace_back(static_cast<size_t>(port.bytes), std::byte{0xA5});
  }
  for (auto& tensor : results.tensors) out.push_back(tensor.data());
  std::unique_ptr<core::run::Executable::Context> context;
  if (program.compilation.executable) {
    context = std::make_unique<core::run::Executable::Context>(*program.compilation.executable);
    context->fill_arenas(std::byte{0xFF});  // NaN
  }
  FE_CHECK(program.run(context.get(), in, out));
  return results;
}

std::vector<Bytes> inputs_of(const GeneratedGraph& graph, uint64_t seed) {
  std::vector<Bytes> inputs;
  for (size_t k = 0; k < graph.inputs.size(); ++k)
    inputs.push_back(contents_of(graph.inputs[k], seed * 64 + k));
  return inputs;
}

/// "" or what is wrong.
std::string check(const core::Session& session, const GeneratedGraph& graph, uint64_t seed,
                  const Options& options) {
  const auto inputs = inputs_of(graph, seed);
  core::CompileOptions reference;
  reference.device = "interpreter";
  reference.only_passes = {"none"};
  auto expected = evaluate(session, graph, inputs, reference);
  if (!expected) return "reference: " + expected.error().message();
  for (bool fuse : {true, false}) {
    if (options.policy && !fuse) continue;  // nothing to decide
    core::CompileOptions compiled;
    compiled.device = options.device;
    compiled.fuse = fuse;
    const char* variant = options.policy ? "fused at random" : fuse ? "fused" : "not fused";
    auto actual = evaluate(session, graph, inputs, compiled);
    if (!actual) return fmt::format("{}: {}", variant, actual.error().message());
    for (size_t k = 0; k < expected->ports.size(); ++k) {
      auto text = difference(expected->ports[k], actual->tensors[k], expected->tensors[k], graph.absolute[k]);
      if (!text.empty()) return fmt::format("{}: {}", variant, text);
    }
  }
  return {};
}

void report(const GeneratedGraph& graph, uint64_t seed, const std::string& what, const Options& options) {
  fmt::print("seed {}: {}\n{}repeat with: random_graphs --seed {} --count 1 --device {}{}{}\n", seed, what,
             graph.text, seed, options.device,
             options.policy ? fmt::format(" --policy {}", *options.policy) : "", options.pad ? " --pad" : "");
  std::fflush(stdout);
  if (options.dump.empty()) return;
  std::error_code failed;
  const std::filesystem::path folder(options.dump);
  std::filesystem::create_directories(folder, failed);
  std::ofstream(folder / fmt::format("{}.fe", seed)) << graph.text;
  for (size_t k = 0; k < graph.inputs.size(); ++k) {
    const auto& input = graph.inputs[k];
    auto tensor = cli::Tensor::make(input.dtype, input.dims);
    if (!tensor) continue;
    std::ranges::copy(inputs_of(graph, seed)[k], tensor->bytes().begin());
    auto written = cli::write_npy(folder / fmt::format("{}_{}.npy", seed, input.name), *tensor);
    if (!written) fmt::print("{}\n", written.error().message());
  }
}

/// Checks [first, last) and writes a verdict for each seed to `progress`. A graph that hangs is ended by its alarm.
int run_part(uint64_t first, uint64_t last, int progress, const Options& options) {
  core::plugin::PipelineRequest request;
  if (options.policy) request.plugins = {FERRITE_RANDOM_POLICY};
  auto pipeline = core::plugin::read_pipeline(request);
  if (!pipeline) return fmt::print("{}\n", pipeline.error().message()), 2;
  for (auto& plugin : pipeline->plugins) {
    if (options.policy && plugin.library == FERRITE_RANDOM_POLICY)
      plugin.config = {{"seed", *options.policy}};
    if (options.pad && plugin.id == "ferrite.cpu")
      plugin.config = {{"row_alignment", int64_t{128}},
                       {"row_padding_percent", int64_t{FE_MOST_ROW_PADDING_PERCENT}}};
  }
  auto session = core::Session::open(*pipeline);
  if (!session) return fmt::print("{}\n", session.error().message()), 2;
  for (uint64_t seed = first; seed < last; ++seed) {
    alarm(seconds_a_graph);
    const auto graph = generate(seed);
    auto what = check(**session, graph, seed, options);
    if (!what.empty()) report(graph, seed, what, options);
    const char verdict = what.empty() ? '+' : '-';
    if (write(progress, &verdict, 1) != 1) return 2;
  }
  return 0;
}

/// Runs all graphs in child processes: one that dies costs the graph that it was at.
int run(const Options& options) {
  const uint64_t first = options.seed, last = options.seed + options.count;
  uint64_t passed = 0, failed = 0, crashed = 0;
  for (uint64_t next = first; next < last;) {
    const uint64_t part_end = std::min(last, next + graphs_a_process);
    int ends[2];
    if (pipe(ends) != 0) return 2;
    std::fflush(stdout);
    const pid_t child = fork();
    if (child < 0) return 2;
    if (child == 0) {
      close(ends[0]);
      const int status = run_part(next, part_end, ends[1], options);
      std::fflush(stdout);
      _exit(status);
    }
    close(ends[1]);
    for (char verdict = 0; read(ends[0], &verdict, 1) == 1; ++next) ++(verdict == '+' ? passed : failed);
    close(ends[0]);
    int status = 0;
    waitpid(child, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) != 0) return WEXITSTATUS(status);
    if (next == part_end) continue;
    const std::string what = WTERMSIG(status) == SIGALRM
                                 ? fmt::format("not done after {} s", seconds_a_graph)
                                 : fmt::format("the process died of signal {}", WTERMSIG(status));
    report(generate(next), next, what, options);
    ++crashed;
    ++next;
  }
  fmt::print("{} graphs from seed {}{}{}: {} passed, {} failed, {} crashed\n", options.count, first,
             options.policy ? ", fused at random" : "", options.pad ? ", rows padded" : "", passed, failed,
             crashed);
  if (!options.json.empty()) {
    std::ofstream(options.json) << fmt::format(
        "{{\"commit\": \"{}\", \"seed\": {}, \"graphs\": {}, \"passed\": {}, \"failed\": {}, \"crashed\": "
        "{}}}\n",
        options.commit, first, options.count, passed, failed, crashed);
  }
  return failed + crashed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace ferrite::random_graphs

int main(int argc, char** argv) {
  using namespace ferrite::random_graphs;
  Options options;
  CLI::App app{"Random graphs: the compiled result against the interpreter's"};
  app.add_option("--count", options.count, "How many graphs")->capture_default_str();
  app.add_option("--seed", options.seed, "The first seed; each graph has its own")->capture_default_str();
  app.add_option("--device", options.device, "What to compile for")->capture_default_str();
  app.add_option("--policy", options.policy, "Fuse what a policy with this seed says, at random");
  app.add_flag("--pad", options.pad, "Pad the rows of all that lies between kernels");
  app.add_option("--dump-failing", options.dump,
                 "Write graphs that fail, and their inputs, into this folder");
  app.add_option("--json", options.json, "Write the counts into this file");
  app.add_option("--commit", options.commit, "What the file of counts names as the source's state");
  app.add_flag("--print", options.print, "Only print the graphs");
  CLI11_PARSE(app, argc, argv);
  if (!options.print) return run(options);
  for (uint64_t seed = options.seed; seed < options.seed + options.count; ++seed)
    fmt::print("{}", generate(seed).text);
  return 0;
}
