// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tools/cli/common.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <fstream>
#include <tuple>

#include "core/support/files/file_fault.h"

#include "core/support/printable.h"
#include "core/support/suggest.h"
#include "core/support/warning.h"
#include "driver/cache/kernel_folder.h"

namespace ferrite::cli {

int exit_status(const Error& error) {
  for (const std::string_view usage : {"FE-D01", "FE-D24", "FE-R40"})
    if (error.code == usage) return exit_usage;
  if (error.code.starts_with("FE-C0")) return exit_usage;
  for (const char* wrong : {"FE-R30", "FE-R31", "FE-R32"})  // a rule or a pass that changes results
    if (error.code == wrong) return exit_wrong;
  switch (error.status) {
    case FE_EUNSUPPORTED: return exit_unsupported;
    case FE_EINVALID: return error.code.starts_with("FE-D") ? exit_device : exit_bad_input;
    case FE_ENOMEM:
    case FE_EDEVICE: return exit_device;
    default: return exit_internal;
  }
}

int report(const Error& error) {
  std::fprintf(stderr, "ferrite: %s\n", core::printable(error.message()).c_str());
  return exit_status(error);
}

std::string not_empty(const std::string& value) { return value.empty() ? "the value is empty" : ""; }

std::string whole_number(const std::string& value) {
  uint64_t number = 0;
  const char* end = value.data() + value.size();
  auto [after, fault] = std::from_chars(value.data(), end, number);
  return fault == std::errc() && after == end
             ? ""
             : fmt::format("'{}' is no whole number from 0 to {}", value, UINT64_MAX);
}

void PipelineOptions::add_to(CLI::App& command) {
  command.add_option("--manifest", manifest, "Pipeline manifest (TOML); without it the default pipeline")
      ->type_name("FILE")
      ->check(not_empty);
  command
      .add_option("--plugin", plugins,
                  "Also load this plugin: a library, a descriptor or a folder of descriptors")
      ->type_name("PATH")
      ->check(not_empty)
      ->allow_extra_args(false);
  command.add_option("--profile", profile, "Apply the manifest's [profile.NAME] over the rest of it")
      ->type_name("NAME")
      ->check(not_empty);
  command.add_flag(
      "--safe-mode", safe_mode,
      "Only the default pipeline of built-in plugins: no manifest, profile, --plugin or search path");
  command
      .add_option("--log", log,
                  "Show diagnostics: a comma-separated list of graph, loops, schedule, kernels, output_code, "
                  "plugins, passes, launches (also FERRITE_LOG)")
      ->type_name("CHANNELS")
      ->check(not_empty);
  command
      .add_option("--validate-rules", validation,
                  "Rules of plugins that are not built in: off applies them without validation; on validates "
                  "them first and rejects wrong ones; strict also rejects those that could not be tested")
      ->type_name("LEVEL")
      ->check(CLI::IsMember({"off", "on", "strict"}));
}

Result<void> PipelineOptions::enable_log() const {
  if (auto enabled = core::log::enable(log); !enabled) return core::at("--log", std::move(enabled.error()));
  return {};
}

Result<core::config::Pipeline> PipelineOptions::read(const std::string& devices) const {
  FE_CHECK(enable_log());
  FE_TRY(auto pipeline, core::config::read_pipeline(request(devices)));
  using core::config::RuleValidation;
  if (!validation.empty())
    pipeline.validate_rules = validation == "off"  ? RuleValidation::off
                              : validation == "on" ? RuleValidation::on
                                                   : RuleValidation::strict;
  return pipeline;
}

void CheckPassesOptions::add_to(CLI::App& command) {
  command.add_flag("--check-passes", check,
                   "Interpret the part that each pass and rule changed, before and after; name the first "
                   "that changes a result, and write a small graph that shows it");
  command.add_option("--reproducers", folder, "The folder for such graphs; without it the working folder")
      ->type_name("DIR")
      ->check(not_empty);
}

std::unique_ptr<core::validate::PassCheck> CheckPassesOptions::make(const core::Session& session) const {
  if (!check) return nullptr;
  core::validate::CheckOptions options;
  options.folder = folder;
  options.options = session.pipeline().options;
  return std::make_unique<core::validate::PassCheck>(session.registry(), std::move(options));
}

void report(const core::validate::PassCheck* check) {
  if (!check) return;
  fmt::print(stderr, "{}\n", check->summary());
  if (const auto fault = check->nothing_compared()) core::log::warn("passes", fault->message());
}

void DeviceOptions::add_to(CLI::App& command) {
  command.add_option("--device", device, "cpu, interpreter, or another runtime's id; see 'ferrite targets'")
      ->type_name("NAME")
      ->check(not_empty);
  command
      .add_option("--threads", threads, "Worker threads; 0: one for each processor that this process may use")
      ->type_name("N")
      ->check(CLI::Range(int64_t{0}, int64_t{4096}));
  command
      .add_option("--compile-jobs", compile_jobs, "Kernels that are compiled at a time; 0: as many as can be")
      ->type_name("N")
      ->check(CLI::Range(int64_t{0}, int64_t{4096}));
  command
      .add_option(
          "--memory-limit", memory_limit,
          "Bytes that the results, and the values between kernels, may take at any one time; 0: all that the "
          "machine has")
      ->type_name("BYTES")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 56));
  command
      .add_option("--cache", cache,
                  "Where compiled kernels are kept: on, in the user's cache folder; off; or a folder (also "
                  "FERRITE_CACHE)")
      ->type_name("PLACE")
      ->check(not_empty);
  command
      .add_option("--tune", tune,
                  "How candidates of kernels are chosen: off, by cost; cached, by earlier measurements; or "
                  "the seconds that may be spent on measuring")
      ->type_name("off|cached|SECONDS")
      ->check([](const std::string& value) {
        core::tune::Options options;
        return core::tune::read_mode(value, options)
                   ? std::string()
                   : fmt::format("'{}' is neither off nor cached nor seconds above 0", value);
      });
  command
      .add_option("--decisions", decisions, "Use the candidates of this decisions lock, and measure nothing")
      ->type_name("FILE")
      ->check(not_empty);
  command
      .add_option("--lock-decisions", lock_decisions,
                  "Write a decisions lock: which candidate each kernel got")
      ->type_name("FILE")
      ->check(not_empty);
  command.add_flag_callback(
      "--no-fuse", [this] { without.add(core::schedule::Feature::fuse); },
      "Make every statement a kernel of its own; the same as --without fuse");
  command
      .add_option_function<std::vector<std::string>>(
          "--without",
          [this](const std::vector<std::string>& names) {
            for (const auto& name : names) without.add(*core::schedule::feature_named(name));
          },
          fmt::format("Switch features of the scheduler off: a comma-separated list of {}",
                      fmt::join(core::schedule::feature_names, ", ")))
      ->type_name("FEATURE,...")
      ->delimiter(',')
      ->check([](const std::string& name) {
        return core::schedule::feature_named(name)
                   ? std::string()
                   : fmt::format("there is no feature '{}'; there are {}{}", name,
                                 fmt::join(core::schedule::feature_names, ", "),
                                 core::did_you_mean(name, core::schedule::feature_names));
      })
      ->allow_extra_args(false);
}

core::CompileOptions DeviceOptions::compile_options(const core::config::Pipeline& pipeline) const {
  core::CompileOptions options;
  options.device = !device.empty() ? device : pipeline.device.value_or(options.device);
  if (device.empty()) options.device_where = pipeline.device_where;
  options.device_chosen = !device.empty() || pipeline.device_chosen;
  options.threads = threads ? *threads : pipeline.threads.value_or(0);
  options.memory_limit = memory_limit ? *memory_limit : pipeline.memory_limit.value_or(0);
  options.jobs = compile_jobs;
  options.without = pipeline.without;
  options.without.add(without);
  options.cache = core::cache::kernel_folder(cache.empty() ? pipeline.cache : cache);
  const auto mode = !tune.empty() ? tune : pipeline.tune.value_or("cached");
  std::ignore = core::tune::read_mode(mode, options.tune);  // checked where the option or the key was read
  options.tune.folder = core::tune::store_folder(options.cache);
  options.tune.replay = decisions;
  options.tune.lock = lock_decisions;
  options.listings = core::log::enabled("output_code");
  return options;
}

Error not_written(const std::string& path) {
  return core::at(
      path, error(FE_EINVALID, "FE-C10", "the file cannot be written: {}", core::file_fault(path, errno)));
}

Result<void> write_text(const std::string& path, std::string_view text) {
  errno = 0;
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  return file ? Result<void>() : not_written(path);
}

Progress::Progress(std::string_view text) { update(text); }

/// The part of a text that fits into one line of the terminal on standard error: a wrapped line could not be
/// erased.
static std::string one_line(std::string_view text) {
  winsize window{};
  constexpr size_t usual = 80;
  const bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col > 0;
  const size_t columns = known ? window.ws_col : usual;
  std::string line = core::printable(text.substr(0, text.find('\n')));
  if (line.size() < columns) return line;
  // UTF-8 has at least as many bytes as columns; a character is never cut.
  size_t end = columns - 1;
  while (end > 0 && (static_cast<unsigned char>(line[end]) & 0xC0U) == 0x80U) --end;
  return line.substr(0, end);
}

void Progress::update(std::string_view text) {
  static const bool terminal = isatty(STDERR_FILENO) != 0;
  if (!terminal) return;
  shown_ = true;
  fmt::print(stderr, "\r\033[K{}", one_line(text));
  std::fflush(stderr);
}

Progress::~Progress() {
  if (shown_) std::fputs("\r\033[K", stderr);
}

std::string type_text(DType dtype, std::span<const int64_t> dims) {
  return fmt::format("{}[{}]", name_of(dtype), fmt::join(dims, ","));
}

std::string port_text(const core::ModelPort& port) {
  if (!port.ranked) return fmt::format("{}[...]", name_of(port.dtype));
  std::vector<std::string> dims;
  for (size_t d = 0; d < port.dims.size(); ++d)
    dims.push_back(port.dims[d] >= 0           ? std::to_string(port.dims[d])
                   : port.dim_names[d].empty() ? "?"
                                               : port.dim_names[d]);
  return fmt::format("{}[{}]", name_of(port.dtype), fmt::join(dims, ","));
}

}  // namespace ferrite::cli
