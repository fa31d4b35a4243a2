// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Common parts of the commands: options, errors and exit statuses, progress.
#pragma once

#include <CLI/CLI.hpp>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "driver/session.h"
#include "driver/validate/check_passes.h"
#include "tools/observe/wording.h"

namespace ferrite::cli {

using namespace observe;

using core::Error;
using core::error;
using core::Result;

/// The help of a model's argument: the files that the importers of the default pipeline, and the core, read.
inline constexpr char model_help[] = "The model's file (.onnx, .aten, .pt2, .fe, .fepkg)";

// Exit statuses besides 0.
inline constexpr int exit_wrong = 1;  ///< a result is wrong, a test failed
inline constexpr int exit_usage = 2;
inline constexpr int exit_bad_input = 3;
inline constexpr int exit_unsupported = 4;
inline constexpr int exit_device = 5;
inline constexpr int exit_internal = 70;

/// The exit status of an error. The first codes of the command line, FE-C0x, and unknown devices, targets and
/// rules are usage errors; others have the status of their class.
int exit_status(const Error& error);
/// Writes "ferrite: FE-X04 where: text" to standard error and returns the exit status.
int report(const Error& error);

/// Validators of an option's value, as CLI11 expects them: an empty text where the value is valid.
std::string not_empty(const std::string& value);
std::string whole_number(const std::string& value);  ///< 0 to 2^64 - 1, in digits

/// The options that select the loaded plugins: every command with a session has them.
struct PipelineOptions {
  std::string manifest;
  std::vector<std::string> plugins;
  std::string profile;
  bool safe_mode = false;
  std::string log, validation;
  std::vector<std::string> targets, kinds;  ///< as in PipelineRequest; they have no options of their own

  void add_to(CLI::App& command);
  core::config::PipelineRequest request(const std::string& devices = {}) const {
    return {.manifest = manifest,
            .plugins = plugins,
            .profile = profile,
            .devices = devices,
            .safe_mode = safe_mode,
            .targets = targets,
            .kinds = kinds};
  }
  Result<void> enable_log() const;
  /// `devices`: PipelineRequest::devices.
  Result<core::config::Pipeline> read(const std::string& devices = {}) const;
};

/// --check-passes, for every command that compiles a model.
struct CheckPassesOptions {
  bool check = false;
  std::string folder = ".";

  void add_to(CLI::App& command);
  /// The watcher of the compilation; none where it is off.
  std::unique_ptr<core::validate::PassCheck> make(const core::Session& session) const;
};
/// Prints one line to standard error; nothing for null.
void report(const core::validate::PassCheck* check);

/// How programs are compiled and run.
struct DeviceOptions {
  std::string device;
  std::optional<int64_t> threads;       ///< 0: one for each processor that this process may use
  int64_t compile_jobs = 0;             ///< 0: as many as there are threads
  std::optional<int64_t> memory_limit;  ///< bytes; 0: the memory of the machine
  core::schedule::Features without;     ///< by --without and --no-fuse
  std::string cache;                    ///< "on", "off" or a folder; empty: as the manifest says
  std::string tune;                     ///< "off", "cached" or seconds; empty: as the manifest says
  std::string decisions, lock_decisions;

  void add_to(CLI::App& command);
  /// The manifest's settings, overridden by the command line's.
  core::CompileOptions compile_options(const core::config::Pipeline& pipeline) const;
};

/// FE-C10: a file could not be written just now, for the reason in errno.
Error not_written(const std::string& path);
/// Writes a text file. FE-C10 where that fails.
Result<void> write_text(const std::string& path, std::string_view text);

/// One line on standard error during a long operation; nothing where that is no terminal. The destructor
/// erases it.
class Progress {
 public:
  explicit Progress(std::string_view text);
  ~Progress();
  Progress(const Progress&) = delete;
  void update(std::string_view text);

 private:
  bool shown_ = false;
};

/// "f32[1,3,224,224]"
std::string type_text(DType dtype, std::span<const int64_t> dims);
/// "f32[batch,3,?,?]"
std::string port_text(const core::ModelPort& port);

/// A command: add_*() adds it to the program and returns the function that runs it and returns the exit
/// status.
using Run = std::function<int()>;
Run add_run(CLI::App& command);
Run add_compile(CLI::App& command);
Run add_bench(CLI::App& command);
Run add_opt(CLI::App& command);
Run add_explain(CLI::App& command);
Run add_onnx_test(CLI::App& command);
Run add_onnx_case(CLI::App& command);  ///< one directory in this process: onnx-test starts it
Run add_ops(CLI::App& command);
Run add_report(CLI::App& command);
Run add_cache(CLI::App& command);
Run add_targets(CLI::App& command);
Run add_plugin(CLI::App& command);
Run add_plugin_level(CLI::App& command);  ///< one level in this process: `plugin check` starts it
Run add_version(CLI::App& command);

/// "ferrite 0.1.0 (plugin ABI 0.1)"
std::string version_text();

}  // namespace ferrite::cli
