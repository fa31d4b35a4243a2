// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// random_graphs: random graphs, compiled with fusion, without it, and without one more feature of the scheduler, each in its turn,
// against the interpreter, which runs them without any pass.
#include <sys/wait.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <cmath>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <optional>

#include "cli/npy.h"
#include "core/graph/parse.h"
#include "core/run/device.h"
#include "core/session.h"
#include "graph_generator.h"

namespace ferrite::random_graphs {
namespace {

using Bytes = std::vector<std::byte>;

constexpr unsigned seconds_a_graph = 30;
constexpr uint64_t graphs_a_process = 100;

using core::schedule::Features;

struct Options {
  uint64_t count = 300, seed = 1;
  std::string device = "cpu", dump, json, commit;
  std::string plugin;             ///< of the device, where the default pipeline has none
  std::optional<int64_t> policy;  ///< seed of the policy that decides at random what is fused
  Features without;               ///< not empty: graphs are compiled without these only
  bool pad = false;               ///< rows of everything between kernels are padded, however small it is
  bool print = false;
};

/// "" or what is wrong with one tensor.
std::string difference(const std::string& what, DType dtype, const Dims& dims, const Bytes& actual,
                       const Bytes& expected, double absolute) {
  const auto width = static_cast<size_t>(bits_of(dtype) / 8);
  const auto count = static_cast<int64_t>(expected.size() / width);
  const double relative = relative_tolerance(dtype);
  int64_t wrong = 0, worst = 0;
  double excess = -1, allowed = 0;
  for (int64_t k = 0; k < count; ++k) {
    const double a = number_at(dtype, actual.data(), k), b = number_at(dtype, expected.data(), k);
    const auto at = static_cast<size_t>(k) * width;
    double off = 0;
    if (!is_float(dtype)) {
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
  return fmt::format("{} {}[{}]: {} of {} elements are off, the worst at {}: {}, expected {} (bound {:.3g})",
                     what, name_of(dtype), fmt::join(dims, ","), wrong, count, worst,
                     number_at(dtype, actual.data(), worst), number_at(dtype, expected.data(), worst),
                     allowed);
}

struct Results {
  std::vector<core::run::PortInfo> ports;
  std::vector<Bytes> tensors;
  std::vector<Bytes> inputs;  ///< as the run left them
};

core::Result<Results> evaluate(const core::Session& session, const GeneratedGraph& graph,
                               std::vector<Bytes> inputs, const core::CompileOptions& options) {
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
    results.tensors.emplace_back(static_cast<size_t>(port.bytes), std::byte{0xFF});
  }
  for (auto& tensor : results.tensors) out.push_back(tensor.data());
  std::unique_ptr<core::run::Executable::Context> context;
  if (program.compilation.executable) {
    context = std::make_unique<core::run::Executable::Context>(*program.compilation.executable);
    FE_CHECK(context->fill_arenas(std::byte{0xFF}));  // NaN
  }
  FE_CHECK(program.run(context.get(), in, out));
  results.inputs = std::move(inputs);
  return results;
}

std::vector<Bytes> inputs_of(const GeneratedGraph& graph, uint64_t seed) {
  std::vector<Bytes> inputs;
  for (size_t k = 0; k < graph.inputs.size(); ++k)
    inputs.push_back(contents_of(graph.inputs[k], seed * 64 + k));
  return inputs;
}

/// What a graph is compiled for: the device or, so that what memory has to bring is small, one like it whose second-level cache is.
std::string target_of(const std::string& device, uint64_t seed) {
  constexpr uint64_t one_in = 11;
  static_assert(std::gcd(one_in, uint64_t{core::schedule::feature_count}) == 1,
                "each feature is off on either target");
  return seed % one_in == 0 && !device.empty() ? device + " l2=16384" : std::string();
}

/// What is switched off, by variant of a graph.
std::vector<Features> variants(uint64_t seed, const Options& options) {
  if (options.without != Features()) return {options.without};
  std::vector<Features> result(1);
  if (options.policy) return result;
  using core::schedule::Feature;
  for (const auto feature : {Feature::fuse, static_cast<Feature>(seed % core::schedule::feature_count)}) {
    Features without;
    without.add(feature);
    if (without != result.back()) result.push_back(without);
  }
  return result;
}

std::string name_of(const Features& variant, const Options& options) {
  const std::string fused = options.policy ? "fused at random" : "fused";
  return variant == Features()
             ? fused
             : fmt::format("{}without {}", options.policy ? fused + ", " : "", variant.text());
}

/// What tells the parent how far a child is: a letter for each variant that is begun, a verdict behind them.
constexpr char first_variant = 'a', verdict_right = '+', verdict_wrong = '-';

struct Fault {
  std::string what;  ///< empty: there is none
  Features without;  ///< of the variant
};

/// Writes the letter of each variant to `progress`.
Fault check(const core::Session& session, const std::string& device, const GeneratedGraph& graph,
            uint64_t seed, int progress, const Options& options) {
  const auto inputs = inputs_of(graph, seed);
  core::CompileOptions reference;
  reference.device = "interpreter";
  reference.only_passes = {"none"};
  auto expected = evaluate(session, graph, inputs, reference);
  if (!expected) return {"reference: " + expected.error().message(), options.without};
  char letter = first_variant;
  for (const auto& without : variants(seed, options)) {
    if (write(progress, &letter, 1) != 1) return {"the parent is gone", without};
    ++letter;
    core::CompileOptions compiled;
    compiled.device = options.device;
    if (auto target = target_of(device, seed); !target.empty())
      compiled.targets = {{options.device, std::move(target)}};
    compiled.without = without;
    const auto fault = [&](const std::string& text) {
      return Fault{fmt::format("{}: {}", name_of(without, options), text), without};
    };
    auto actual = evaluate(session, graph, inputs, compiled);
    if (!actual) return fault(actual.error().message());
    for (size_t k = 0; k < expected->ports.size(); ++k) {
      const auto& port = expected->ports[k];
      auto text = difference("output " + port.name, port.dtype, port.dims, actual->tensors[k],
                             expected->tensors[k], graph.absolute[k]);
      if (!text.empty()) return fault(text);
    }
    // What is not to change has not changed either.
    for (size_t k = 0; k < graph.inputs.size(); ++k) {
      const auto& input = graph.inputs[k];
      auto text = difference("input " + input.name, input.dtype, input.dims, actual->inputs[k],
                             expected->inputs[k], input.absolute);
      if (!text.empty()) return fault(text);
    }
  }
  return {};
}

void report(const GeneratedGraph& graph, uint64_t seed, const Fault& fault, const Options& options) {
  fmt::print(
      "seed {}: {}\n{}repeat with: random_graphs --seed {} --count 1 --device {}{}{}{}\n", seed, fault.what,
      graph.text, seed, options.device, options.policy ? fmt::format(" --policy {}", *options.policy) : "",
      fault.without == Features() ? "" : " --without " + fault.without.text(), options.pad ? " --pad" : "");
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
  if (!options.plugin.empty()) request.plugins = {options.plugin};
  if (options.policy) request.plugins.emplace_back(FERRITE_RANDOM_POLICY);
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
  std::string device;  // as its providers describe it, where they describe caches
  if (options.device == "cpu") {
    auto opened = core::run::Device::open(options.device, (*session)->registry());
    if (!opened) return fmt::print("{}\n", opened.error().message()), 2;
    device = (*opened)->description;
  }
  for (uint64_t seed = first; seed < last; ++seed) {
    alarm(seconds_a_graph);
    const auto graph = generate(seed);
    const auto fault = check(**session, device, graph, seed, progress, options);
    if (!fault.what.empty()) report(graph, seed, fault, options);
    const char verdict = fault.what.empty() ? verdict_right : verdict_wrong;
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
    int variant = -1;  // that the graph `next` is at; -1: the reference
    for (char mark = 0; read(ends[0], &mark, 1) == 1;) {
      if (mark != verdict_right && mark != verdict_wrong) {
        variant = mark - first_variant;
        continue;
      }
      ++(mark == verdict_right ? passed : failed);
      ++next;
      variant = -1;
    }
    close(ends[0]);
    int status = 0;
    waitpid(child, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) != 0) return WEXITSTATUS(status);
    if (next == part_end) continue;
    const std::string end = WTERMSIG(status) == SIGALRM
                                ? fmt::format("not done after {} s", seconds_a_graph)
                                : fmt::format("the process died of signal {}", WTERMSIG(status));
    const auto without =
        variant >= 0 ? variants(next, options)[static_cast<size_t>(variant)] : options.without;
    const auto place = variant >= 0 ? name_of(without, options) : "reference";
    report(generate(next), next, {fmt::format("{}: {}", place, end), without}, options);
    ++crashed;
    ++next;
  }
  fmt::print("{} graphs from seed {}{}{}{}: {} passed, {} failed, {} crashed\n", options.count, first,
             options.policy ? ", fused at random" : "",
             options.without == Features() ? "" : ", without " + options.without.text(),
             options.pad ? ", rows padded" : "", passed, failed, crashed);
  if (!options.json.empty()) {
    std::ofstream(options.json) << fmt::format(
        "{{\"commit\": \"{}\", \"seed\": {}, \"policy\": {}, \"padded\": {}, \"graphs\": {}, \"passed\": {}, "
        "\"failed\": {}, \"crashed\": {}}}\n",
        options.commit, first, options.policy ? std::to_string(*options.policy) : "null", options.pad,
        options.count, passed, failed, crashed);
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
  app.add_option("--plugin", options.plugin,
                 "The plugin whose device is named, where no built-in one has it");
  app.add_option("--policy", options.policy, "Fuse what a policy with this seed says, at random");
  app.add_option_function<std::vector<std::string>>(
         "--without",
         [&](const std::vector<std::string>& names) {
           for (const auto& name : names) options.without.add(*ferrite::core::schedule::feature_named(name));
         },
         "Compile without these features only; by default with all, without fuse, and without one by the "
         "seed")
      ->delimiter(',')
      ->check(CLI::IsMember(std::vector<std::string>(std::begin(ferrite::core::schedule::feature_names),
                                                     std::end(ferrite::core::schedule::feature_names))))
      ->allow_extra_args(false);
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
