// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// ferrite plugin: the commands on plugins, as subcommands.
#include "tools/cli/commands/plugin.h"

namespace ferrite::cli {
namespace {

struct Subcommand {
  const char* name;
  const char* help;
  Run (*add)(CLI::App&);
};

constexpr Subcommand subcommands[] = {
    {"list", "List the loaded plugins, and why each is loaded", add_plugin_list},
    {"order", "Show the order of the passes, and which plugin asked for each place", add_plugin_order},
    {"lock", "Write down the hashes of a manifest's plugins", add_plugin_lock},
    {"new", "Make a project for a new plugin", add_plugin_new},
    {"schema", "The keys of manifests, descriptors and lock files", add_plugin_schema},
    {"check", "Test the promises of a plugin", add_plugin_check},
};

}  // namespace

Run add_plugin(CLI::App& command) {
  auto chosen = std::make_shared<Run>();
  for (const auto& one : subcommands) {
    auto* sub = command.add_subcommand(one.name, one.help);
    sub->final_callback([run = one.add(*sub), chosen] { *chosen = run; });
  }
  command.require_subcommand(1);
  return [chosen] { return (*chosen)(); };
}

}  // namespace ferrite::cli
