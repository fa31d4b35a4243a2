// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The program `ferrite`: one file for each command, errors with codes, exit status 0 only on success.
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <span>
#include <sstream>
#include <system_error>

#include "core/passes/watchdog.h"
#include "core/support/files/file_fault.h"
#include "core/support/suggest.h"
#include "core/support/warning.h"
#include "tools/cli/common.h"

namespace {

using namespace ferrite::cli;

struct Command {
  const char* name;
  const char* help;
  Run (*add)(CLI::App&);
  bool hidden = false;
};

constexpr Command commands[] = {
    {"run", "Run a model once", add_run},
    {"compile", "Compile a model into a package, for this machine or another one", add_compile},
    {"bench", "Time a model", add_bench},
    {"opt", "Show a model after any stage, or run some stages over a text", add_opt},
    {"explain", "Show what was decided while compiling, and why", add_explain},
    {"report", "Write a page about a model's kernels, stages, memory and decisions", add_report},
    {"onnx-test", "Run directories of ONNX test data", add_onnx_test},
    {"ops", "List the ops and those that importers read", add_ops},
    {"cache", "List, verify or clear the cache of compiled kernels", add_cache},
    {"targets", "List devices and the targets that can be compiled for", add_targets},
    {"plugin", "Inspect and check plugins", add_plugin},
    {"version", "Print the version", add_version},
    {"onnx-case", "", add_onnx_case, true},
    {"plugin-level", "", add_plugin_level, true},
};

/// The error in the words that choose a command, with the known commands; nothing where they are valid.
std::optional<Error> check_command(const CLI::App& program, std::span<char* const> words) {
  const auto visible = [](const CLI::App* command) { return !command->get_group().empty(); };
  const CLI::App* command = &program;
  std::string path = program.get_name();
  for (const char* word : words) {
    const auto known = command->get_subcommands(visible);
    if (known.empty() || word[0] == '-') return {};
    const auto named =
        command->get_subcommands([&](const CLI::App* each) { return each->get_name() == word; });
    if (!named.empty()) {
      command = named.front();
      path += fmt::format(" {}", word);
      continue;
    }
    std::vector<std::string_view> names;
    for (const auto* each : known) names.push_back(each->get_name());
    return error(FE_EINVALID, "FE-C01", "there is no command '{} {}'; there are: {}{}; see '{} --help'", path,
                 word, fmt::join(names, ", "), ferrite::core::did_you_mean(word, names), path);
  }
  std::vector<std::string> names;
  for (const auto* each : command->get_subcommands(visible)) names.push_back(each->get_name());
  if (names.empty()) return {};
  return error(FE_EINVALID, "FE-C01", "write '{} COMMAND'; the commands are: {}; see '{} --help'", path,
               fmt::join(names, ", "), path);
}

/// An unknown option is reported rather than missing arguments.
Error usage_error(const CLI::App& program, const CLI::ParseError& fault) {
  const CLI::App* innermost = &program;
  std::string words;  // of the command, with a space after each
  while (!innermost->get_subcommands().empty()) {
    innermost = innermost->get_subcommands().front();
    words += innermost->get_name() + " ";
  }
  const CLI::App& command = *innermost;
  const auto help = fmt::format("see 'ferrite {}--help'", words);
  if (dynamic_cast<const CLI::RequiredError*>(&fault))
    for (const auto& word : program.remaining(true))
      if (word.starts_with('-'))
        return error(FE_EINVALID, "FE-C01", "there is no option '{}'; {}", word, help);
  for (const auto* option : command.get_options())
    if (option->get_required() && option->get_positional() && option->count() == 0)
      return error(FE_EINVALID, "FE-C01", "{0} is missing: write 'ferrite {1}{0}'; {2}",
                   option->get_type_name(), words, help);
  return error(FE_EINVALID, "FE-C01", "{}; {}", fault.what(), help);
}

/// `number`: the errno value.
int stdout_failed(int status, int number) {
  const auto why = ferrite::core::file_fault("standard output", number);
  std::fputs(("ferrite: FE-C10 standard output: it cannot be written: " + why + "\n").c_str(), stderr);
  return status == 0 ? exit_bad_input : status;
}

/// Runs the chosen command; a failure to print its output counts as a failure of the command.
int run_chosen(const Run& chosen) {
  int status = 0;
  try {
    status = chosen();
  } catch (const std::system_error& fault) {
    if (std::ferror(stdout) == 0) throw;
    return stdout_failed(status, fault.code().value());
  }
  errno = 0;
  return std::fflush(stdout) != 0 || std::ferror(stdout) ? stdout_failed(status, errno) : status;
}

/// Sets the time limit of a plugin's callback: five minutes, or the value in the environment.
std::optional<Error> watch_plugins() {
  std::chrono::seconds limit(300);
  if (const char* given = std::getenv("FERRITE_WATCHDOG")) {
    const std::string_view text(given);
    uint32_t seconds = 0;
    const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), seconds);
    if (text.empty() || end != text.data() + text.size() || fault != std::errc())
      return error(
          FE_EINVALID, "FE-C01",
          "FERRITE_WATCHDOG is '{}'; write the seconds that a plugin's callback may take, 0 for no limit",
          text);
    limit = std::chrono::seconds(seconds);
  }
  ferrite::core::plugin::install_watchdog(limit);
  return {};
}

int run_program(int argc, char** argv) {
  if (auto wrong = watch_plugins()) return report(*wrong);
  CLI::App app("A tensor compiler: runs models compiled to machine code, through plugins.", "ferrite");
  app.require_subcommand(1);
  app.set_version_flag("--version", version_text(), "Print the version");
  app.footer(
      "'ferrite COMMAND --help' says more. Exit status: 0 success, 1 a result is wrong, 2 usage, 3 bad "
      "input, 4 unsupported,\n"
      "5 device, 70 internal error.");
  Run chosen;
  for (const auto& command : commands) {
    auto* sub = app.add_subcommand(command.name, command.help);
    if (command.hidden) sub->group("");
    sub->final_callback([run = command.add(*sub), &chosen] { chosen = run; });
  }
  if (auto wrong = check_command(app, std::span(argv, static_cast<size_t>(argc)).subspan(argc > 0 ? 1 : 0)))
    return report(*wrong);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& fault) {
    if (fault.get_exit_code() != 0) return report(usage_error(app, fault));
    return run_chosen([&] {  // --help, --version
      std::ostringstream text;
      const int status = app.exit(fault, text, text);
      const auto shown = text.str();
      fmt::print("{}{}", shown, shown.ends_with('\n') ? "" : "\n");
      return status;
    });
  }
  if (const char* channels = std::getenv("FERRITE_LOG"))
    if (auto enabled = ferrite::core::log::enable(channels); !enabled)
      return report(ferrite::core::at("FERRITE_LOG", enabled.error()));
  ferrite::core::log::show_warnings();
  return run_chosen(chosen);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run_program(argc, argv);
  } catch (const std::bad_alloc&) {
    return report(error(FE_ENOMEM, "FE-X36", "out of memory"));
  } catch (const std::exception& exception) {
    return report(error(FE_EINTERNAL, "FE-C99", "{}", exception.what()));
  }
}
