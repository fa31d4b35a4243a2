// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// random_graphs: random graphs, compiled with fusion, without it, and without one more feature of the scheduler, each in its turn,
// against the interpreter, which runs them without any pass. Of each feature it counts the graphs whose schedule it changes.
#include <sys/wait.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <optional>
#include <regex>

#include "core/ir/text/parse_graph.h"
#include "core/observe/observation.h"
#include "core/schedule/memory/kernel_order.h"
#include "core/support/abi/abi.h"
#include "driver/session.h"
#include "graph_generator.h"
#include "random_source.h"
#include "runtime/device.h"
#include "runtime/target/number_table.h"
#include "tools/cli/npy.h"

namespace ferrite::random_graphs {
namespace {

using Bytes = std::vector<std::byte>;

constexpr unsigned seconds_a_graph = 30;
constexpr uint64_t graphs_a_process = 100;
constexpr uint64_t graphs_for_all = 1000;  ///< among so many each feature has something to do

using core::runtime::Target;
using core::schedule::Feature;
using core::schedule::feature_count;
using core::schedule::Features;

struct Options {
  uint64_t count = 300, seed = 1;
  std::string device = "cpu", dump, json, commit;
  std::string plugin;             ///< of the device, where the default pipeline has none
  std::optional<int64_t> policy;  ///< seed of the policy that decides at random what is fused
  Features without;               ///< not empty: graphs are compiled without these only
  bool pad = false;               ///< rows of everything between kernels are padded, however small it is
  bool stages = false;            ///< the text of each stage is read and gone on from; nothing is run
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
  std::vector<core::runtime::PortInfo> ports;
  std::vector<Bytes> tensors;
  std::vector<Bytes> inputs;  ///< as the run left them
};

core::Result<core::Compilation> compile(const core::Session& session, const GeneratedGraph& graph,
                                        const core::CompileOptions& options, core::Ledger& ledger) {
  core::graph::ParseOptions parse;
  parse.registry = &session.registry().ops();
  FE_TRY(auto parsed, core::graph::parse(graph.text, parse));
  return core::compile(std::move(parsed), session.registry(), options, ledger);
}

core::Result<Results> evaluate(const core::Session& session, const GeneratedGraph& graph,
                               std::vector<Bytes> inputs, const core::CompileOptions& options) {
  core::Program program;
  FE_TRY(program.compilation, compile(session, graph, options, program.ledger));
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
  std::unique_ptr<core::runtime::Executable::Context> context;
  if (program.compilation.executable) {
    context = std::make_unique<core::runtime::Executable::Context>(*program.compilation.executable);
    FE_CHECK(context->fill_arenas(std::byte{0xFF}));  // NaN
  }
  FE_CHECK(program.run(context.get(), in, out));
  if (context) {
    FE_TRY(const auto beside, context->written_beside(std::byte{0xFF}));
    if (!beside.empty()) return core::error(FE_EINVALID, "FE-P52", "{}", beside);
  }
  results.inputs = std::move(inputs);
  return results;
}

/// What is wrong with a plan of memory, whatever the numbers of the target are; empty where nothing is.
std::string excess_of(const core::observe::Observation& seen, const GeneratedGraph& graph, bool has_red_zones,
                      bool has_own_rates) {
  if (!seen.op_by_op_bytes) return {};
  int64_t most_live = 0, buffers = 0, workers = 1;
  for (const auto& one : seen.memory) {
    buffers += one.workers == 0 ? 1 : 0;
    workers = std::max(workers, one.workers);
    int64_t live = 0;
    for (const auto& other : seen.memory)
      if (other.workers == 0 && other.first <= one.first && one.first <= other.last) live += other.bytes;
    most_live = std::max(most_live, live);
  }
  // Without workspaces there is no more than op by op, but for what buffers are aligned to, 1 KiB, and a 64th of what is read for parts
  // of reductions.
  int64_t read = *seen.op_by_op_bytes;
  for (const auto& input : graph.inputs) {
    int64_t elements = 1;
    for (const int64_t dim : input.dims) elements *= dim;
    read += 4 * elements;
  }
  const int64_t most = *seen.op_by_op_bytes + 64 * buffers + 1024 + read / 64;
  // Where rates are not the target's own, what is fused may keep more; what is planned stays within the limit all the same.
  if (has_own_rates && most_live > most)
    return fmt::format("{} bytes live, {} op by op", most_live, *seen.op_by_op_bytes);
  const auto limit =
      core::schedule::MemoryLimit{seen.op_by_op_bytes, workers}.bytes(static_cast<size_t>(buffers));
  if (!has_red_zones && seen.arena_bytes > limit)
    return fmt::format("{} bytes planned, at most {} are to be", seen.arena_bytes, limit);
  return {};
}

std::vector<Bytes> inputs_of(const GeneratedGraph& graph, uint64_t seed) {
  std::vector<Bytes> inputs;
  for (size_t k = 0; k < graph.inputs.size(); ++k)
    inputs.push_back(contents_of(graph.inputs[k], seed * 64 + k));
  return inputs;
}

/// The devices that graphs are compiled for.
struct Here {
  std::vector<Target> devices;  ///< none: the interpreter
  Features idle;                ///< features that can change no schedule on these
};

core::Result<Here> open_here(const core::Session& session, const Options& options) {
  Here here;
  if (options.device == core::runtime::interpreter_name) return here;
  FE_TRY(const auto devices, core::runtime::open_devices(options.device, session.registry()));
  here.devices = core::runtime::targets_of(devices);
  here.idle.add(Feature::record);
  // Without a wish of the target's, or buffers as large as it wants them, no row is padded.
  if (!options.pad) here.idle.add(Feature::padding);
  if (core::runtime::numbers_of(devices).products == core::schedule::Products::apart)
    here.idle.add(Feature::gemm_chains);
  return here;
}

/// What a graph is compiled for instead of the device: nothing or, so that what memory has to bring is small, a CPU like it whose
/// second-level cache is.
std::vector<Target> targets_for(const Here& here, uint64_t seed, const Options& options) {
  constexpr uint64_t one_in = 11;
  static_assert(std::gcd(one_in, uint64_t{feature_count}) == 1, "each feature is off on either target");
  if (seed % one_in != 0 || options.device != "cpu") return {};
  return {{here.devices[0].kind, here.devices[0].description + " l2=16384"}};
}

/// What counts as measured: nothing or, on some seeds, numbers by which small tensors, too, are divided among workers, and launches
/// are worth what little that saves.
fe_target_numbers numbers_for(uint64_t seed) {
  constexpr uint64_t one_in = 3;
  static_assert(std::gcd(one_in, uint64_t{feature_count}) == 1, "each feature is off with either numbers");
  auto numbers = core::abi::sized<fe_target_numbers>();
  if (seed % one_in != 0) return numbers;
  static const std::vector<int64_t> nanoseconds = {1, 4, 16, 64}, workers = {2, 4, 8, 32};
  RandomSource random(~seed);  // another one than the graph's
  numbers.launch_ns = random.pick(nanoseconds);
  numbers.join_ns = random.pick(nanoseconds);
  numbers.workers = random.pick(workers);
  if (!random.chance(0.5)) return numbers;
  static const std::vector<int64_t> rates = {1'000'000, 1'000'000'000, 1'000'000'000'000},
                                    times = {1, 14, 4096};
  numbers.bandwidth = random.pick(rates);
  numbers.operations = random.pick(rates);
  numbers.uncoalesced = random.pick(times);
  return numbers;
}

/// Whether what lies between kernels has red zones around it, and no memory that was something else's before.
bool has_red_zones(uint64_t seed) {
  constexpr uint64_t one_in = 5;
  static_assert(std::gcd(one_in, uint64_t{feature_count}) == 1, "each feature is off with them and without");
  return seed % one_in == 0;
}

/// "launch_ns 4, join_ns 64, workers 8", of those that are there.
std::string text_of(const fe_target_numbers& numbers) {
  std::vector<std::string> parts;
  for (const auto& number : core::runtime::number_table)
    if (const int64_t value = numbers.*number.stated; value != 0)
      parts.push_back(fmt::format("{} {}", number.name, value));
  return fmt::format("{}", fmt::join(parts, ", "));
}

/// How a graph is compiled, and what its devices are said to be like from now on.
core::Result<core::CompileOptions> options_for(const Here& here, uint64_t seed, const Options& options) {
  core::CompileOptions compiled;
  compiled.device = options.device;
  compiled.targets = targets_for(here, seed, options);
  compiled.red_zones = has_red_zones(seed);
  for (const auto& targets : {here.devices, compiled.targets})
    for (const auto& target : targets)
      FE_CHECK(core::runtime::save_measured(target.kind, target.description, numbers_for(seed)));
  return compiled;
}

Features only(Feature feature) {
  Features features;
  features.add(feature);
  return features;
}

/// What is switched off, by variant of a graph.
std::vector<Features> variants(uint64_t seed, const Options& options) {
  if (options.without != Features()) return {options.without};
  std::vector<Features> result(1);
  if (options.policy) return result;
  for (const auto feature : {Feature::fuse, static_cast<Feature>(seed % feature_count)})
    if (const auto without = only(feature); without != result.back()) result.push_back(without);
  return result;
}

std::string name_of(const Features& variant, const Options& options) {
  const std::string fused = options.policy ? "fused at random" : "fused";
  return variant == Features()
             ? fused
             : fmt::format("{}without {}", options.policy ? fused + ", " : "", variant.text());
}

/// What tells the parent how far a child is: a letter for each variant that is begun, a mark for the schedule with all features, a letter
/// for each feature without which one is made, a mark behind it where that is another one, a verdict behind all.
constexpr char first_variant = 'a', whole_schedule = '=', first_feature = 'A', another_schedule = '*',
               verdict_right = '+', verdict_wrong = '-';
static_assert(feature_count <= 26);

bool tell(int progress, char mark) { return write(progress, &mark, 1) == 1; }

struct Fault {
  std::string what;  ///< empty: there is none
  Features without;  ///< of the variant
};

constexpr std::string_view whole_name = "schedule";
std::string schedule_name(Feature without) {
  return fmt::format("schedule without {}", core::schedule::name_of(without));
}

/// Makes the schedule with all features and without each that is not idle, and no kernels. Writes the letters of these features and the
/// marks to `progress`.
Fault compare_schedules(const core::Session& session, const Here& here, const GeneratedGraph& graph,
                        core::CompileOptions compiled, int progress) {
  compiled.to = "post_fusion";
  const auto schedule_without = [&](Features without) -> core::Result<std::string> {
    compiled.without = without;
    core::Ledger ledger;
    FE_TRY(const auto compilation, compile(session, graph, compiled, ledger));
    return compilation.text();
  };
  if (!tell(progress, whole_schedule)) return {"the parent is gone", {}};
  const auto whole = schedule_without({});
  if (!whole) return {fmt::format("{}: {}", whole_name, whole.error().message()), {}};
  for (size_t k = 0; k < feature_count; ++k) {
    const auto feature = static_cast<Feature>(k);
    if (here.idle.has(feature)) continue;
    if (!tell(progress, static_cast<char>(first_feature + k))) return {"the parent is gone", only(feature)};
    const auto without = schedule_without(only(feature));
    if (!without)
      return {fmt::format("{}: {}", schedule_name(feature), without.error().message()), only(feature)};
    if (*without != *whole && !tell(progress, another_schedule)) return {"the parent is gone", only(feature)};
  }
  return {};
}

/// A text without the numbers of nodes, which are those of the graph that was read.
std::string without_node_numbers(const std::string& text) {
  static const std::regex number(" %[0-9]+(?=[,)])");
  std::string result;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const auto line = text.substr(begin, end - begin);
    result += line.find(" from ") == std::string::npos ? line : std::regex_replace(line, number, "");
    result += '\n';
    begin = end + 1;
  }
  return result;
}

/// Goes on from the text of each stage to the schedule, and from the schedule's text to the kernels, as the whole way has them.
Fault check_stages(const core::Session& session, const GeneratedGraph& graph, core::CompileOptions compiled) {
  const auto text_to = [&](std::string_view stage) -> core::Result<std::string> {
    compiled.from.clear();
    compiled.to = stage;
    core::Ledger ledger;
    FE_TRY(const auto compilation, compile(session, graph, compiled, ledger));
    return compilation.text();
  };
  const auto text_from = [&](const std::string& text, std::string_view from,
                             std::string_view to) -> core::Result<std::string> {
    core::graph::ParseOptions parse;
    parse.registry = &session.registry().ops();
    FE_TRY(auto source, core::parse_source(text, parse));
    compiled.from = from;
    compiled.to = to;
    core::Ledger ledger;
    FE_TRY(const auto compilation, core::compile(std::move(source), session.registry(), compiled, ledger));
    return compilation.text();
  };
  const auto stages = core::stages();
  for (size_t k = 0; stages[k] != "emit"; ++k) {
    const auto end = stages[k] == "post_fusion" ? "emit" : "post_fusion";
    const auto fault = [&](const std::string& text) {
      return Fault{
          fmt::format("the text of '{}', from '{}' to '{}': {}", stages[k], stages[k + 1], end, text), {}};
    };
    const auto expected = text_to(end), text = text_to(stages[k]);
    if (!expected || !text) return fault((expected ? text : expected).error().message());
    const auto actual = text_from(*text, stages[k + 1], end);
    if (!actual) return fault(actual.error().message());
    const auto x = without_node_numbers(*actual), y = without_node_numbers(*expected);
    if (x == y) continue;
    const auto first = static_cast<size_t>(std::ranges::mismatch(x, y).in1 - x.begin());
    const auto line = [&](const std::string& all) {
      const size_t begin = first == 0 ? 0 : all.rfind('\n', first - 1) + 1;
      return all.substr(begin, all.find('\n', first) - begin);
    };
    return fault(fmt::format("gives\n  {}\nwhere the whole way gives\n  {}", line(x), line(y)));
  }
  return {};
}

/// Writes the letter of each variant to `progress`, and what compare_schedules() does.
Fault check(const core::Session& session, const Here& here, const GeneratedGraph& graph, uint64_t seed,
            int progress, const Options& options) {
  if (options.stages) {
    auto compiled = options_for(here, seed, options);
    if (!compiled) return {compiled.error().message(), {}};
    return check_stages(session, graph, *std::move(compiled));
  }
  const auto inputs = inputs_of(graph, seed);
  core::CompileOptions reference;
  reference.device = "interpreter";
  reference.only_passes = {"none"};
  auto expected = evaluate(session, graph, inputs, reference);
  if (!expected) return {"reference: " + expected.error().message(), options.without};
  auto compiled = options_for(here, seed, options);
  if (!compiled) return {compiled.error().message(), options.without};
  char letter = first_variant;
  for (const auto& without : variants(seed, options)) {
    if (!tell(progress, letter++)) return {"the parent is gone", without};
    compiled->without = without;
    core::observe::Observation seen;
    compiled->observation = &seen;
    const auto fault = [&](const std::string& text) {
      return Fault{fmt::format("{}: {}", name_of(without, options), text), without};
    };
    auto actual = evaluate(session, graph, inputs, *compiled);
    compiled->observation = nullptr;
    if (!actual) return fault(actual.error().message());
    // In the memory of another device there are copies of inputs and results, too, which nothing op by op is counted for.
    if (without == Features() && !options.policy && !options.pad && options.device == "cpu")
      if (auto excess = excess_of(seen, graph, compiled->red_zones, numbers_for(seed).bandwidth == 0);
          !excess.empty())
        return fault(excess);
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
  if (here.devices.empty() || options.without != Features()) return {};
  return compare_schedules(session, here, graph, *std::move(compiled), progress);
}

void report(const GeneratedGraph& graph, uint64_t seed, const Fault& fault, const Options& options) {
  const auto numbers = text_of(numbers_for(seed));
  fmt::print("seed {}: {}\n{}{}repeat with: random_graphs --seed {} --count 1 --device {}{}{}{}{}\n", seed,
             fault.what, graph.text, numbers.empty() ? "" : fmt::format("with {}\n", numbers), seed,
             options.device, options.plugin.empty() ? "" : " --plugin " + options.plugin,
             options.policy ? fmt::format(" --policy {}", *options.policy) : "",
             fault.without == Features() ? "" : " --without " + fault.without.text(),
             options.pad      ? " --pad"
             : options.stages ? " --stages"
                              : "");
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
  const auto here = open_here(**session, options);
  if (!here) return fmt::print("{}\n", here.error().message()), 2;
  for (uint64_t seed = first; seed < last; ++seed) {
    alarm(seconds_a_graph);
    const auto graph = generate(seed);
    const auto fault = check(**session, *here, graph, seed, progress, options);
    if (!fault.what.empty()) report(graph, seed, fault, options);
    if (!tell(progress, fault.what.empty() ? verdict_right : verdict_wrong)) return 2;
  }
  return 0;
}

/// By feature: of how many graphs there is a schedule without it, and of how many that is another one.
struct FeatureCounts {
  std::array<uint64_t, feature_count> tried{}, changed{};
};

/// Prints a line for each feature; false where one changed nothing among graphs enough.
bool summarise(const FeatureCounts& counts, const Options& options) {
  bool all = true;
  for (size_t k = 0; k < feature_count; ++k) {
    const auto name = core::schedule::feature_names[k];
    if (counts.tried[k] == 0) continue;
    fmt::print("{:<16} {} of {} schedules differ without it\n", name, counts.changed[k], counts.tried[k]);
    if (counts.changed[k] != 0 || options.count < graphs_for_all) continue;
    fmt::print("{} changes no schedule: the graphs test nothing of it\n", name);
    all = false;
  }
  return all;
}

/// A folder of the user's cache for this process and its children, so that what is said to be measured on devices counts for no others,
/// and what was measured for none of these. One that is killed leaves it to the next one.
class CacheFolder {
 public:
  CacheFolder() {
    std::error_code failed;
    const auto parent = std::filesystem::temp_directory_path(failed);
    if (failed) return;
    remove_of_the_dead(parent);
    auto path = (parent / fmt::format("{}{}_XXXXXX", prefix, getpid())).string();
    if (!mkdtemp(path.data()) || setenv("XDG_CACHE_HOME", path.c_str(), 1) != 0) return;
    path_ = path;
  }
  ~CacheFolder() {
    std::error_code ignored;
    if (is_made()) std::filesystem::remove_all(path_, ignored);
  }
  CacheFolder(const CacheFolder&) = delete;
  bool is_made() const { return !path_.empty(); }

 private:
  static constexpr std::string_view prefix = "ferrite_random_";

  static void remove_of_the_dead(const std::filesystem::path& parent) {
    std::error_code failed, ignored;
    for (std::filesystem::directory_iterator at(parent, failed), end; !failed && at != end;
         at.increment(failed)) {
      const auto name = at->path().filename().string();
      if (!name.starts_with(prefix)) continue;
      pid_t owner = 0;
      std::from_chars(name.data() + prefix.size(), name.data() + name.size(), owner);
      if (owner > 0 && kill(owner, 0) != 0 && errno == ESRCH) std::filesystem::remove_all(*at, ignored);
    }
  }

  std::string path_;
};

/// Runs all graphs in child processes: one that dies costs the graph that it was at.
int run(const Options& options) {
  const CacheFolder folder;
  if (!folder.is_made()) return fmt::print("there is no folder for what counts as measured\n"), 2;
  FeatureCounts counts;
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
    const Fault reference{"reference", options.without};
    Fault place = reference;  // that the graph `next` is at
    size_t feature = 0;       // the last one without which a schedule was made
    for (char mark = 0; read(ends[0], &mark, 1) == 1;) {
      if (mark == verdict_right || mark == verdict_wrong) {
        ++(mark == verdict_right ? passed : failed);
        ++next;
        place = reference;
      } else if (mark == another_schedule) {
        ++counts.changed[feature];
      } else if (mark == whole_schedule) {
        place = {std::string(whole_name), {}};
      } else if (mark >= first_variant) {
        const auto without = variants(next, options)[static_cast<size_t>(mark - first_variant)];
        place = {name_of(without, options), without};
      } else {
        feature = static_cast<size_t>(mark - first_feature);
        ++counts.tried[feature];
        place = {schedule_name(static_cast<Feature>(feature)), only(static_cast<Feature>(feature))};
      }
    }
    close(ends[0]);
    int status = 0;
    waitpid(child, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) != 0) return WEXITSTATUS(status);
    if (next == part_end) continue;
    const std::string end = WTERMSIG(status) == SIGALRM
                                ? fmt::format("not done after {} s", seconds_a_graph)
                                : fmt::format("the process died of signal {}", WTERMSIG(status));
    report(generate(next), next, {fmt::format("{}: {}", place.what, end), place.without}, options);
    ++crashed;
    ++next;
  }
  fmt::print("{} graphs from seed {}{}{}{}: {} passed, {} failed, {} crashed\n", options.count, first,
             options.policy ? ", fused at random" : "",
             options.without == Features() ? "" : ", without " + options.without.text(),
             options.pad ? ", rows padded" : "", passed, failed, crashed);
  const bool all_tested = summarise(counts, options);
  if (!options.json.empty()) {
    std::ofstream(options.json) << fmt::format(
        "{{\"commit\": \"{}\", \"seed\": {}, \"policy\": {}, \"padded\": {}, \"graphs\": {}, \"passed\": {}, "
        "\"failed\": {}, \"crashed\": {}}}\n",
        options.commit, first, options.policy ? std::to_string(*options.policy) : "null", options.pad,
        options.count, passed, failed, crashed);
  }
  return failed + crashed == 0 && all_tested ? 0 : 1;
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
  app.add_flag("--stages", options.stages,
               "Go on from the text of each stage, which is to end as the whole way does; run nothing");
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
