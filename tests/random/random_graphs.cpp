// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// random_graphs: random graphs, compiled with fusion, without it, and without one more feature of the
// scheduler, each in its turn, against the interpreter, which runs them without any pass. Of each feature it
// counts the graphs whose schedule it changes.
#include <sys/wait.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "checking.h"
#include "tools/cli/npy.h"

namespace ferrite::random_graphs {
namespace {

constexpr unsigned seconds_a_graph = 30;
constexpr uint64_t graphs_a_process = 100;
constexpr uint64_t graphs_for_all = 1000;  ///< among so many each feature has something to do

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

/// Checks [first, last) and writes a verdict for each seed to `progress`. A graph that hangs is ended by its
/// alarm.
int run_part(uint64_t first, uint64_t last, int progress, const Options& options) {
  core::config::PipelineRequest request;
  if (!options.plugin.empty()) request.plugins = {options.plugin};
  if (options.policy) request.plugins.emplace_back(FERRITE_RANDOM_POLICY);
  auto pipeline = core::config::read_pipeline(request);
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

/// A folder of the user's cache for this process and its children, so that what is said to be measured on
/// devices counts for no others, and what was measured for none of these. One that is killed leaves it to the
/// next one.
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
  app.add_option("--device", options.device, "The device to compile for")->capture_default_str();
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
