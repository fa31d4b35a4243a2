// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The program `ferrite`: one command a file, errors with codes, exit status 0 only on success.
#include <cstdio>
#include <cstdlib>

#include "cli/common.h"
#include "core/support/suggest.h"

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
    {"bench", "Time a model", add_bench},
    {"opt", "Show a model after any stage, or run some stages over a text", add_opt},
    {"explain", "Show what was decided while compiling, and why", add_explain},
    {"onnx-test", "Run directories of ONNX test data", add_onnx_test},
    {"ops", "List the ops and what importers read", add_ops},
    {"targets", "List devices and what can be compiled for", add_targets},
    {"plugin", "Look at plugins", add_plugin},
    {"version", "Print the version", add_version},
    {"onnx-case", "", add_onnx_case, true},
};

int run_program(int argc, char** argv) {
  CLI::App app("A tensor compiler: runs models compiled to machine code, through plugins.", "ferrite");
  app.require_subcommand(1);
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
  if (argc > 1 && argv[1][0] != '-') {
    std::vector<std::string_view> names;
    bool known = false;
    for (const auto& command : commands) {
      known = known || std::string_view(command.name) == argv[1];
      if (!command.hidden) names.emplace_back(command.name);
    }
    if (!known)
      return report(error(FE_EINVALID, "FE-C01", "there is no command '{}'{}; see 'ferrite --help'", argv[1],
                          ferrite::core::did_you_mean(argv[1], names)));
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& fault) {
    if (fault.get_exit_code() == 0) return app.exit(fault);  // --help
    const auto used = app.get_subcommands();
    report(error(FE_EINVALID, "FE-C01", "{}; see 'ferrite {}--help'", fault.what(),
                 used.empty() ? "" : used.front()->get_name() + " "));
    return exit_usage;
  }
  if (const char* channels = std::getenv("FERRITE_LOG"))
    if (auto enabled = ferrite::core::log::enable(channels); !enabled)
      return report(ferrite::core::at("FERRITE_LOG", enabled.error()));
  const int status = chosen();
  if (std::fflush(stdout) != 0 || std::ferror(stdout)) {
    std::fputs("ferrite: FE-C10 standard output: cannot be written\n", stderr);
    return status == 0 ? exit_bad_input : status;
  }
  return status;
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
