// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// ferrite onnx-test: runs directories of ONNX test data, each in a process of its own.
#include <fcntl.h>
#include <fnmatch.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "core/support/elapsed.h"
#include "core/support/files/file_descriptor.h"
#include "tools/cli/common.h"

namespace ferrite::cli {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

struct OnnxTestOptions {
  std::vector<std::string> folders;
  std::string filter, json;
  int64_t jobs = 2;
  double timeout = 20;
  PipelineOptions pipeline;
  DeviceOptions device;
};

struct Case {
  std::string name, folder;
  std::string result, text;
  double milliseconds = 0;
};

/// Finds every folder below `root`, itself included, that contains model.onnx; sorted.
void find_cases(const fs::path& root, std::vector<Case>& cases) {
  std::error_code failed;
  std::vector<fs::path> found;
  if (fs::exists(root / "model.onnx", failed)) found.push_back(root);
  fs::recursive_directory_iterator folders(root, fs::directory_options::skip_permission_denied, failed), end;
  for (; folders != end; folders.increment(failed)) {
    if (failed) break;
    if (folders->is_directory(failed) && fs::exists(folders->path() / "model.onnx", failed))
      found.push_back(folders->path());
  }
  std::sort(found.begin(), found.end());
  for (const auto& folder : found) {
    auto name = folder == root ? fs::absolute(root).lexically_normal().filename().string()
                               : folder.lexically_relative(root).string();
    cases.push_back({name, folder.string(), {}, {}, 0});
  }
}

/// A process that runs one case; its output goes to memory.
class CaseProcess {
 public:
  CaseProcess(Case& test, const std::vector<std::string>& arguments) : test_(&test), start_(Clock::now()) {
    for (auto& file : output_) file = core::FileDescriptor(memfd_create("ferrite-onnx-test", MFD_CLOEXEC));
    std::vector<char*> argv;
    for (const auto& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
    argv.push_back(nullptr);
    process_ = output_[0] && output_[1] ? fork() : -1;
    if (process_ != 0) return;
    // Only async-signal-safe calls from here on.
    setpgid(0, 0);
    dup2(output_[0].get(), STDOUT_FILENO);
    dup2(output_[1].get(), STDERR_FILENO);
    execv("/proc/self/exe", argv.data());
    _exit(127);
  }
  CaseProcess(const CaseProcess&) = delete;

  /// Whether the process has ended; the case then has its result.
  bool poll(double timeout_seconds) {
    if (process_ < 0) return finish("error", "no process could be started");
    int status = 0;
    const pid_t ended = waitpid(process_, &status, WNOHANG);
    const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
    if (ended == 0) {
      if (seconds < timeout_seconds) return false;
      // The group first, to kill processes that the case started. The group may not exist yet.
      kill(-process_, SIGKILL);
      kill(process_, SIGKILL);
      waitpid(process_, &status, 0);
      return finish("timeout", fmt::format("not done after {:.0f} s", timeout_seconds));
    }
    if (ended < 0) return finish("error", fmt::format("the process is lost: {}", std::strerror(errno)));
    if (WIFSIGNALED(status))
      return finish("crash", fmt::format("{}; {}", strsignal(WTERMSIG(status)), last_line(1)));
    if (WEXITSTATUS(status) == 0) {
      auto verdict = nlohmann::json::parse(last_line(0), nullptr, false);
      if (verdict.is_object() && verdict.contains("result") && verdict["result"].is_string() &&
          verdict["text"].is_string())
        return finish(verdict["result"].get<std::string>(), verdict["text"].get<std::string>());
    }
    return finish("crash", fmt::format("exit status {}; {}", WEXITSTATUS(status), last_line(1)));
  }

 private:
  bool finish(std::string result, std::string text) {
    test_->result = std::move(result);
    test_->text = std::move(text);
    test_->milliseconds = core::milliseconds_since(start_);
    return true;
  }
  /// The last line of its output, from its last 16 KiB.
  std::string last_line(size_t stream) const {
    std::array<char, 16384> buffer;
    const off_t total = lseek(output_[stream].get(), 0, SEEK_END);
    const off_t from = std::max<off_t>(0, total - static_cast<off_t>(buffer.size()));
    const ssize_t count = pread(output_[stream].get(), buffer.data(), buffer.size(), from);
    std::string text(buffer.data(), static_cast<size_t>(std::max<ssize_t>(count, 0)));
    while (text.ends_with('\n')) text.pop_back();
    return text.substr(text.rfind('\n') + 1);
  }

  Case* test_;
  Clock::time_point start_;
  std::array<core::FileDescriptor, 2> output_;
  pid_t process_ = -1;
};

/// The arguments for every case. Cases run in parallel, so each gets one thread unless the command line or a
/// manifest asks for more.
std::vector<std::string> child_arguments(const OnnxTestOptions& options,
                                         const core::config::Pipeline& pipeline) {
  std::vector<std::string> result;
  auto add = [&](std::string name, const std::string& value) {
    if (value.empty()) return;
    result.push_back(std::move(name));
    result.push_back(value);
  };
  if (options.device.threads)
    add("--threads", std::to_string(*options.device.threads));
  else if (pipeline.threads.value_or(0) == 0)
    add("--threads", "1");
  add("--device", options.device.device);
  add("--without", options.device.without.text());
  add("--manifest", options.pipeline.manifest);
  for (const auto& plugin : options.pipeline.plugins) add("--plugin", plugin);
  add("--validate-rules", options.pipeline.validation);
  add("--log", options.pipeline.log);
  return result;
}

void run_all(const OnnxTestOptions& options, const std::vector<std::string>& arguments,
             std::vector<Case>& cases) {
  Progress progress("");
  std::vector<std::unique_ptr<CaseProcess>> running;
  size_t next = 0, done = 0;
  while (done < cases.size()) {
    while (next < cases.size() && running.size() < static_cast<size_t>(options.jobs)) {
      auto& test = cases[next++];
      progress.update(fmt::format("{} of {}: {}", next, cases.size(), test.name));
      std::vector<std::string> command{"ferrite", "onnx-case", test.folder};
      command.insert(command.end(), arguments.begin(), arguments.end());
      running.push_back(std::make_unique<CaseProcess>(test, command));
    }
    auto ended = std::remove_if(running.begin(), running.end(),
                                [&](const auto& child) { return child->poll(options.timeout); });
    done += static_cast<size_t>(running.end() - ended);
    if (ended == running.end()) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    running.erase(ended, running.end());
  }
}

Result<int> onnx_test(const OnnxTestOptions& options) {
  // A pipeline that cannot be read would fail every case: report it once.
  FE_TRY(auto pipeline, options.pipeline.read());
  std::vector<Case> cases;
  for (const auto& folder : options.folders) {
    std::error_code failed;
    if (!fs::exists(folder, failed))
      return core::at(folder, error(FE_EINVALID, "FE-C10", "there is no such folder; correct the path"));
    if (!fs::is_directory(folder, failed))
      return core::at(folder, error(FE_EINVALID, "FE-C10",
                                    "this is a file; give the folder that holds model.onnx and its data"));
    find_cases(folder, cases);
  }
  // A folder that is given twice, or within another given folder, counts once.
  std::set<std::string> seen;
  std::erase_if(cases, [&](const Case& test) {
    std::error_code failed;
    auto path = fs::canonical(test.folder, failed);
    return !failed && !seen.insert(path.string()).second;
  });
  if (!options.filter.empty())
    std::erase_if(cases, [&](const Case& test) {
      return fnmatch(options.filter.c_str(), test.name.c_str(), 0) != 0 &&
             fnmatch(options.filter.c_str(), fs::path(test.name).filename().c_str(), 0) != 0;
    });
  if (cases.empty())
    return error(FE_EINVALID, "FE-C23", "no folder with model.onnx was found{}",
                 options.filter.empty() ? "" : " that the filter lets through");
  run_all(options, child_arguments(options, pipeline), cases);

  size_t passed = 0, skipped = 0;
  auto list = nlohmann::ordered_json::array();
  for (const auto& test : cases) {
    passed += test.result == "pass";
    skipped += test.result == "unsupported";
    list.push_back(
        {{"name", test.name}, {"result", test.result}, {"text", test.text}, {"ms", test.milliseconds}});
    if (test.result != "pass") fmt::print("{}: {}: {}\n", test.name, test.result, test.text);
  }
  const size_t failed = cases.size() - passed - skipped;
  if (!options.json.empty()) {
    nlohmann::ordered_json document{
        {"passed", passed}, {"failed", failed}, {"skipped", skipped}, {"cases", list}};
    FE_CHECK(write_text(
        options.json, document.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n"));
  }
  fmt::print("{} passed, {} failed, {} skipped\n", passed, failed, skipped);
  return failed == 0 ? 0 : exit_wrong;
}

}  // namespace

Run add_onnx_test(CLI::App& command) {
  auto options = std::make_shared<OnnxTestOptions>();
  command
      .add_option("folders", options->folders,
                  "Folders that hold test directories: model.onnx, test_data_set_*/")
      ->required()
      ->type_name("DIR");
  command.add_option("--filter", options->filter, "Only cases whose name matches, as in 'test_conv_*'")
      ->type_name("GLOB");
  command.add_option("--json", options->json, "Also write each case's result to this file")
      ->type_name("FILE");
  command.add_option("--jobs", options->jobs, "Cases that run at a time")
      ->type_name("N")
      ->capture_default_str()
      ->check(CLI::Range(int64_t{1}, int64_t{256}));
  command.add_option("--timeout", options->timeout, "Seconds that a case may take")
      ->type_name("S")
      ->capture_default_str()
      ->check(CLI::Range(0.1, 3600.0));
  options->device.add_to(command);
  options->pipeline.add_to(command);
  command.footer("A case is pass, wrong, unsupported (counted as skipped), error, crash or timeout.");
  return [options] {
    auto done = onnx_test(*options);
    return done ? *done : report(done.error());
  };
}

}  // namespace ferrite::cli
