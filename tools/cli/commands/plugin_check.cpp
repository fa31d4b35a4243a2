// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// ferrite plugin check: tests a plugin's promises, each level in a process of its own.
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/support/files/file_descriptor.h"
#include "core/support/files/file_fault.h"
#include "core/support/files/weights.h"
#include "core/support/sanitizer.h"
#include "tools/cli/commands/plugin.h"
#include "tools/plugin_check/levels.h"

extern char** environ;

namespace ferrite::cli {
namespace {

namespace check = core::plugin_check;
using Clock = std::chrono::steady_clock;
using check::Finding;
using check::Message;
using check::Outcome;

constexpr int report_file = 3;                        // to which a child writes its messages
constexpr size_t most_restarts = 32;                  // of one level
constexpr size_t longest_message = size_t{64} << 20;  // bytes

struct PluginCheckOptions {
  std::string path;
  std::vector<std::string> levels;
  std::vector<std::string> samples;
  std::vector<std::string> only;
  PipelineOptions pipeline;
  uint64_t seed = 1;
  bool all = false, json = false;
  std::string capabilities;
  double timeout = 30;
  uint64_t memory_mib = 4096;

  void add_to(CLI::App& command) {
    command
        .add_option("--sample", samples,
                    "Also try importers, passes and rules on this model; may be repeated")
        ->type_name("FILE")
        ->check(not_empty)
        ->allow_extra_args(false);
    command.add_option("--seed", seed, "Seed of the sampled graphs and inputs")
        ->type_name("N")
        ->capture_default_str();
    command.add_flag("--all", all, "Every case of a backend's conformance list instead of one in ten");
    auto* const patterns =
        command
            .add_option("--only", only,
                        "Only checks whose name matches this pattern, as of a shell; may be repeated")
            ->type_name("PATTERN")
            ->check(not_empty)
            ->allow_extra_args(false);
    command
        .add_option("--capabilities", capabilities,
                    "Write a backend's measured table of capabilities to this file, or into this folder")
        ->type_name("PATH")
        ->check(not_empty)
        ->excludes(patterns);  // kernels left out would appear in the table as unsupported
    command.add_option("--memory", memory_mib, "MiB of memory that a level may take; 0: any")
        ->type_name("MIB")
        ->capture_default_str();
    pipeline.add_to(command);
  }
};

/// A process that runs one level from a given check on, and its messages.
class LevelProcess {
 public:
  explicit LevelProcess(const std::vector<std::string>& arguments) {
    int ends[2] = {-1, -1};
    if (!output_ || pipe2(ends, O_CLOEXEC) != 0) return;
    messages_ = core::FileDescriptor(ends[0]);
    const core::FileDescriptor writing(ends[1]);
    std::vector<std::string> copies = arguments;
    std::vector<char*> argv;
    for (auto& argument : copies) argv.push_back(argument.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    // In this order: the number of the last one may be that of a file which the first ones need.
    posix_spawn_file_actions_adddup2(&actions, output_.get(), STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, output_.get(), STDERR_FILENO);
    posix_spawn_file_actions_adddup2(&actions, writing.get(), report_file);
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    posix_spawnattr_setpgroup(&attributes, 0);
    if (posix_spawn(&process_, "/proc/self/exe", &actions, &attributes, argv.data(), environ) != 0)
      process_ = -1;
    else
      watched_ = core::FileDescriptor(static_cast<int>(syscall(SYS_pidfd_open, process_, 0)));
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
  }
  ~LevelProcess() { end(); }
  LevelProcess(const LevelProcess&) = delete;

  bool started() const { return process_ > 0; }

  /// The next message; none at the end of messages, after `seconds` without one (then timed_out()), and after
  /// a line that is no message (then garbled()).
  std::optional<Message> next(double seconds) {
    const auto until = Clock::now() + std::chrono::duration<double>(seconds);
    for (;;) {
      if (const auto line_end = text_.find('\n'); line_end != std::string::npos) {
        auto message = check::decode(std::string_view(text_).substr(0, line_end));
        text_.erase(0, line_end + 1);
        garbled_ = !message;
        return message;
      }
      if (text_.size() > longest_message) {
        garbled_ = true;
        return std::nullopt;
      }
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
      std::array<pollfd, 2> waiting = {{{messages_.get(), POLLIN, 0}, {watched_.get(), POLLIN, 0}}};
      const int ready =
          left <= 0 ? 0
                    : poll(waiting.data(), waiting.size(), static_cast<int>(std::min<long>(left, 1 << 30)));
      if (ready < 0 && errno == EINTR) continue;
      if (ready <= 0) {
        timed_out_ = true;
        return std::nullopt;
      }
      // The process has ended, though another one may still hold its end of the pipe.
      if (waiting[0].revents == 0) return std::nullopt;
      std::array<char, 4096> part;
      const ssize_t count = read(messages_.get(), part.data(), part.size());
      if (count <= 0) return std::nullopt;
      text_.append(part.data(), static_cast<size_t>(count));
    }
  }
  bool timed_out() const { return timed_out_; }
  bool garbled() const { return garbled_; }

  /// Waits for the process to end, at most this long, and kills the processes that it started. Returns how it
  /// crashed, or nothing after a normal exit.
  std::string finish(double seconds) {
    const auto until = Clock::now() + std::chrono::duration<double>(seconds);
    siginfo_t info{};
    // The process stays a zombie until end() reaps it, so that no other process can get its number, or that
    // of its group.
    while (waitid(P_PID, static_cast<id_t>(process_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == 0 && Clock::now() < until)
      usleep(1000);
    const bool ended = info.si_pid == process_;
    const int status = end();
    if (!ended) return fmt::format("the process was not done after {:.0f} s", seconds);
    if (WIFSIGNALED(status))
      return fmt::format("the process died: {}{}", strsignal(WTERMSIG(status)), last_words());
    if (WEXITSTATUS(status) != 0)
      return fmt::format("the process ended with exit status {}{}", WEXITSTATUS(status), last_words());
    return {};
  }

 private:
  /// How it ended, as waitpid reports it.
  int end() {
    int status = 0;
    if (process_ <= 0) return status;
    // The group first, to kill processes that the plugin started.
    kill(-process_, SIGKILL);
    kill(process_, SIGKILL);
    waitpid(process_, &status, 0);
    process_ = -1;
    return status;
  }
  /// The last line of its output.
  std::string last_words() const {
    std::array<char, 4096> buffer;
    const off_t total = lseek(output_.get(), 0, SEEK_END);
    const ssize_t count = pread(output_.get(), buffer.data(), buffer.size(),
                                std::max<off_t>(0, total - static_cast<off_t>(buffer.size())));
    std::string text(buffer.data(), static_cast<size_t>(std::max<ssize_t>(count, 0)));
    while (text.ends_with('\n')) text.pop_back();
    text = text.substr(text.rfind('\n') + 1);
    return text.empty() ? "" : "; it said: " + text;
  }

  pid_t process_ = -1;
  core::FileDescriptor output_{memfd_create("ferrite-plugin-check", MFD_CLOEXEC)}, messages_;
  core::FileDescriptor watched_;  // readable once the process has ended
  std::string text_;
  bool timed_out_ = false, garbled_ = false;
};

struct Report {
  check::Target target;
  std::vector<Finding> findings;

  size_t count(Outcome outcome) const {
    return static_cast<size_t>(std::count_if(findings.begin(), findings.end(),
                                             [&](const Finding& f) { return f.outcome == outcome; }));
  }
};

std::vector<std::string> child_arguments(const PluginCheckOptions& options, const check::Target& target,
                                         const std::string& level, size_t first) {
  std::vector<std::string> result = {"ferrite",
                                     "plugin-level",
                                     target.path,
                                     "--level",
                                     level,
                                     "--first",
                                     std::to_string(first),
                                     "--seed",
                                     std::to_string(options.seed),
                                     "--memory",
                                     std::to_string(options.memory_mib)};
  auto add = [&](const char* name, const std::string& value) {
    if (value.empty()) return;
    result.emplace_back(name);
    result.push_back(value);
  };
  add("--manifest", options.pipeline.manifest);
  add("--profile", options.pipeline.profile);
  add("--log", options.pipeline.log);
  add("--capabilities", options.capabilities);
  for (const auto& plugin : options.pipeline.plugins) add("--plugin", plugin);
  for (const auto& sample : options.samples) add("--sample", sample);
  for (const auto& pattern : options.only) add("--only", pattern);
  if (options.all) result.emplace_back("--all");
  return result;
}

/// Printed at once, because a check may take long.
void print(const Finding& finding) {
  fmt::print("  {} {:<8} {}", finding.level, check::name_of(finding.outcome), finding.name);
  if (!finding.text.empty())
    fmt::print(": {}{}{}", finding.code, finding.code.empty() ? "" : " ", finding.text);
  fmt::print("\n");
  std::fflush(stdout);
}

/// Runs one level: a process that crashes in a check costs that check, and another process continues after
/// it.
void run_level(const PluginCheckOptions& options, const std::string& level, Report& report,
               Progress& progress) {
  const auto add = [&](const Finding& finding) {
    report.findings.push_back(finding);
    if (options.json) return;
    progress.update("");
    print(finding);
  };
  size_t next = 0;
  for (size_t starts = 0; starts < most_restarts; ++starts) {
    LevelProcess child(child_arguments(options, report.target, level, next));
    Finding under_way{level, "begin", Outcome::failed, "FE-P53", "no process could be started"};
    if (!child.started()) return add(under_way);
    bool in_check = false, done = false, garbled = false;
    while (!done && !garbled) {
      const auto message = child.next(options.timeout);
      if (!message) break;
      const Finding& said = message->finding;
      switch (message->kind) {
        case Message::Kind::goes_on: break;
        case Message::Kind::done:
          garbled = in_check;
          done = !garbled;
          break;
        case Message::Kind::begins:
          garbled = in_check;
          if (garbled) break;
          in_check = true;
          ++next;
          under_way.name = said.name;
          progress.update(fmt::format("{} {}: {}", report.target.path, level, under_way.name));
          break;
        case Message::Kind::found:
          garbled = !in_check || said.name != under_way.name || said.level != level;
          if (garbled) break;
          in_check = false;
          add(said);
      }
    }
    garbled = garbled || child.garbled();
    if (garbled || child.timed_out()) {
      under_way.text = garbled
                           ? fmt::format(
                                 "something else was written among what the checks report, to descriptor {}; "
                                 "write only to descriptors that the plugin opened",
                                 report_file)
                           : fmt::format("not done after {:g} s; the process was ended", options.timeout);
    } else {
      under_way.text = child.finish(options.timeout);
      if (done && under_way.text.empty()) return;
      if (done) under_way.name = "end of the process";
      if (under_way.text.empty())
        under_way.text = "the process ended with exit status 0 before the check did";
    }
    add(under_way);
    // A plugin that crashes while it is loaded does so in every check of L1.
    if (done || (!in_check && !garbled) || (level == "L1" && next <= 1)) return;
  }
}

void print_json(const std::vector<Report>& reports) {
  using Json = nlohmann::ordered_json;
  auto plugins = Json::array();
  for (const auto& report : reports) {
    auto checks = Json::array();
    for (const auto& f : report.findings)
      checks.push_back({{"level", f.level},
                        {"name", f.name},
                        {"outcome", check::name_of(f.outcome)},
                        {"code", f.code},
                        {"text", f.text}});
    plugins.push_back({{"path", report.target.path},
                       {"badge", check::badge(report.findings)},
                       {"passed", report.count(Outcome::passed)},
                       {"failed", report.count(Outcome::failed)},
                       {"skipped", report.count(Outcome::skipped)},
                       {"checks", std::move(checks)}});
  }
  fmt::print("{}\n",
             Json{{"plugins", std::move(plugins)}}.dump(1, ' ', false, Json::error_handler_t::replace));
}

/// Checks, before an hour of measuring, that the table can be written. An existing file keeps its contents.
Result<void> check_writable(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code none;
  bool writable = false;
  errno = 0;
  if (fs::is_directory(path, none)) {
    writable = access(path.c_str(), W_OK | X_OK) == 0;
  } else {
    const bool is_new = !fs::exists(path, none);
    std::ofstream file(path, std::ios::app);
    if (is_new || !fs::is_regular_file(path, none)) file << '\n';
    file.close();
    writable = !file.fail();
    if (is_new && writable) fs::remove(path, none);
  }
  if (writable) return {};
  return core::at("--capabilities " + path,
                  error(FE_EINVALID, "FE-P54", "the table of capabilities cannot be written: {}",
                        core::file_fault(path, errno)));
}

/// Checks that each pattern matches the name of a check; the findings explain why there may be none.
Result<void> check_patterns(const std::vector<std::string>& patterns, const std::vector<Report>& reports) {
  std::vector<std::string> names;
  for (const auto& report : reports)
    for (const auto& finding : report.findings) names.push_back(finding.name);
  const auto is_asked_for = [&](const std::string& name) {
    return std::ranges::any_of(patterns, [&](const std::string& p) { return check::matches(name, p); });
  };
  if (!std::ranges::all_of(names, is_asked_for)) return {};
  for (const auto& pattern : patterns)
    if (std::ranges::none_of(names, [&](const std::string& name) { return check::matches(name, pattern); }))
      return core::at(
          "--only " + pattern,
          error(FE_EINVALID, "FE-C01",
                "no check has such a name; without --only, each line has the name after the outcome"));
  return {};
}

Result<int> run_checks(const PluginCheckOptions& options) {
  if (options.pipeline.safe_mode)
    return core::at("--safe-mode", error(FE_EINVALID, "FE-C01",
                                         "it loads the built-in plugins only, and so none that "
                                         "could be checked; leave it out"));
  FE_TRY(const auto targets, check::find_targets(options.path));
  if (!options.capabilities.empty()) FE_CHECK(check_writable(options.capabilities));
  for (const auto& sample : options.samples)
    if (auto file = core::graph::MappedFile::open(sample); !file)
      return core::at("--sample " + sample,
                      error(file.error().status, "FE-I01",
                            "the model cannot be read: {}; give the path of a file", file.error().text));
  std::vector<Report> reports;
  {
    Progress progress("");
    for (const auto& target : targets) {
      auto& report = reports.emplace_back(Report{target, {}});
      if (!options.json) fmt::print("{}\n", target.path);
      for (const auto level : check::level_names)
        if (options.levels.empty() || std::ranges::find(options.levels, level) != options.levels.end())
          run_level(options, std::string(level), report, progress);
      progress.update("");
      if (!options.json) fmt::print("{}\n", check::badge(report.findings));
    }
  }
  FE_CHECK(check_patterns(options.only, reports));
  size_t failed = 0;
  for (const auto& report : reports) failed += report.count(Outcome::failed);
  if (options.json) print_json(reports);
  return failed == 0 ? 0 : exit_wrong;
}

/// The work of a child.
int run_one_level(const PluginCheckOptions& options, size_t first) {
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  if (options.memory_mib > 0 && !core::sanitized) {
    const rlim_t bytes = static_cast<rlim_t>(options.memory_mib) << 20;
    const rlimit memory{bytes, bytes};
    setrlimit(RLIMIT_DATA, &memory);
  }
  const auto say = [](const Message& message) {
    const auto line = check::encode(message);
    size_t written = 0;
    while (written < line.size()) {
      const ssize_t count = write(report_file, line.data() + written, line.size() - written);
      if (count < 0 && errno != EINTR) _exit(exit_internal);  // the parent is gone
      written += static_cast<size_t>(std::max<ssize_t>(count, 0));
    }
  };
  if (auto enabled = core::log::enable(options.pipeline.log); !enabled) return report(enabled.error());
  auto targets = check::find_targets(options.path);
  if (!targets) return report(targets.error());
  check::CheckOptions given;
  given.target = targets->front();
  given.manifest = options.pipeline.manifest;
  given.profile = options.pipeline.profile;
  given.plugins = options.pipeline.plugins;
  given.samples = options.samples;
  given.seed = options.seed;
  given.all = options.all;
  given.capabilities = options.capabilities;
  check::Runner runner(options.levels.front(), options.only, first, say);
  check::run_level(options.levels.front(), given, runner);
  say({});
  return 0;
}

}  // namespace

Run add_plugin_check(CLI::App& command) {
  auto options = std::make_shared<PluginCheckOptions>();
  command.add_option("path", options->path, "A library, a descriptor, or a folder of descriptors")
      ->required()
      ->type_name("PATH");
  command.add_option("--level", options->levels, "Only this level: L0, L1, L2 or L3; may be repeated")
      ->type_name("LEVEL")
      ->check(CLI::IsMember(
          std::vector<std::string>(std::begin(check::level_names), std::end(check::level_names))))
      ->allow_extra_args(false);
  command.add_flag("--json", options->json, "Print the report as JSON");
  command
      .add_option("--timeout", options->timeout,
                  "Seconds that one check may take, or one case of a backend's list")
      ->type_name("S")
      ->capture_default_str()
      ->check(CLI::Range(0.1, 3600.0));
  options->add_to(command);
  command.footer(
      "L0 looks at the files, L1 loads the plugin, L2 misuses it, L3 compares its results. Exit status 1\nif "
      "a check failed. Checks that cannot be done are skipped, with the reason.");
  return [options] {
    auto done = run_checks(*options);
    return done ? *done : report(done.error());
  };
}

Run add_plugin_level(CLI::App& command) {
  auto options = std::make_shared<PluginCheckOptions>();
  auto first = std::make_shared<size_t>(0);
  command.add_option("path", options->path)->required();
  command.add_option("--level", options->levels)->required()->allow_extra_args(false);
  command.add_option("--first", *first);
  options->add_to(command);
  return [options, first] { return run_one_level(*options, *first); };
}

}  // namespace ferrite::cli
