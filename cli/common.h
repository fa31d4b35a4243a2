// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the commands share: options, errors and exit statuses, progress.
#pragma once

#include <CLI/CLI.hpp>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/wording.h"
#include "core/session.h"
#include "core/trust/check_passes.h"

namespace ferrite::cli {

using core::Error;
using core::error;
using core::Result;

// Exit statuses beside 0.
inline constexpr int exit_wrong = 1;  ///< a result is wrong, a test failed
inline constexpr int exit_usage = 2;
inline constexpr int exit_bad_input = 3;
inline constexpr int exit_unsupported = 4;
inline constexpr int exit_device = 5;
inline constexpr int exit_internal = 70;

/// The first codes of the command line, FE-C0x, and a device, target or rule that is not there are usage errors; others go by their
/// class.
int exit_status(const Error& error);
/// Writes "ferrite: FE-X04 where: text" to standard error and gives the exit status.
int report(const Error& error);

/// Checks of an option's value: empty text where it is well, as CLI11 wants them.
std::string not_empty(const std::string& value);
std::string whole_number(const std::string& value);  ///< 0 to 2^64 - 1, in digits

/// Which plugins are loaded: every command that needs a session has these.
struct PipelineOptions {
  std::string manifest;
  std::vector<std::string> plugins;
  std::string profile;
  bool safe_mode = false;
  std::string log, trust;
  std::vector<std::string> targets, kinds;  ///< as PipelineRequest has them; no options of their own

  void add_to(CLI::App& command);
  core::plugin::PipelineRequest request(const std::string& devices = {}) const {
    return {manifest, plugins, profile, devices, safe_mode, true, targets, kinds};
  }
  Result<void> enable_log() const;
  /// `devices`: PipelineRequest::devices.
  Result<core::plugin::Pipeline> read(const std::string& devices = {}) const;
};

/// --check-passes, for every command that compiles a model.
struct CheckPassesOptions {
  bool check = false;
  std::string folder = ".";

  void add_to(CLI::App& command);
  /// What watches the compilation; none where it is off.
  std::unique_ptr<core::trust::PassCheck> make(const core::Session& session) const;
};
/// One line on standard error; nothing for none.
void report(const core::trust::PassCheck* check);

/// How programs are compiled and run.
struct DeviceOptions {
  std::string device;
  std::optional<int64_t> threads;       ///< 0: as many as this process may use processors
  int64_t compile_jobs = 0;             ///< 0: as many as there are threads
  std::optional<int64_t> memory_limit;  ///< bytes; 0: what the machine has
  core::schedule::Features without;     ///< by --without and --no-fuse
  std::string cache;                    ///< "on", "off" or a folder; empty: as the manifest says
  std::string tune;                     ///< "off", "cached" or seconds; empty: as the manifest says
  std::string decisions, lock_decisions;

  void add_to(CLI::App& command);
  /// The manifest's settings, the command line's over them.
  core::CompileOptions compile_options(const core::plugin::Pipeline& pipeline) const;
};

/// FE-C10: a file could not be written just now, for the reason that is in errno.
Error not_written(const std::string& path);
/// Writes a file of text. FE-C10 where that fails.
Result<void> write_text(const std::string& path, std::string_view text);

/// One line on standard error while something takes long; nothing where that is no terminal. Gone when this goes.
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

/// A command: adds itself to the program; what it returns runs it and gives the exit status.
using Run = std::function<int()>;
Run add_run(CLI::App& command);
Run add_compile(CLI::App& command);
Run add_bench(CLI::App& command);
Run add_opt(CLI::App& command);
Run add_explain(CLI::App& command);
Run add_onnx_test(CLI::App& command);
Run add_onnx_case(CLI::App& command);  ///< one directory in this process: what onnx-test starts
Run add_ops(CLI::App& command);
Run add_report(CLI::App& command);
Run add_cache(CLI::App& command);
Run add_targets(CLI::App& command);
Run add_plugin(CLI::App& command);
Run add_plugin_level(CLI::App& command);  ///< one level in this process: what `plugin check` starts
Run add_version(CLI::App& command);

/// "ferrite 0.1.0 (plugin ABI 0.1)"
std::string version_text();

}  // namespace ferrite::cli
