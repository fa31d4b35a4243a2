// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// ferrite plugin lock: writes the hashes of a manifest's plugins beside the manifest.
#include <algorithm>
#include <array>
#include <span>

#include "core/support/files/replace_file.h"
#include "core/support/toml/toml_reader.h"
#include "driver/config/lock.h"
#include "ferrite/counted.hpp"
#include "tools/cli/commands/plugin.h"

namespace ferrite::cli {
namespace {

using core::config::Lock;

struct PluginLockOptions {
  PipelineOptions pipeline;
  bool check = false;
};

Result<void> write(const std::string& path, const std::string& text) {
  const std::array chunks{std::as_bytes(std::span(text))};
  if (const auto fault = core::replace_file(path, chunks); !fault.empty())
    return core::at(path, error(FE_EINVALID, "FE-C10", "the lock file cannot be written: {}", fault));
  return {};
}

/// The first difference between a plugin's files and the lock file.
std::string difference(const Lock& locked, const Lock& now) {
  for (const auto& plugin : now.plugins()) {
    auto found = std::find_if(locked.plugins().begin(), locked.plugins().end(),
                              [&](const auto& other) { return other.id == plugin.id; });
    if (found == locked.plugins().end()) return fmt::format("'{}' is not in it", plugin.id);
    for (const auto& other : locked.plugins())
      if (other.id == plugin.id && other.library == plugin.library && other.descriptor == plugin.descriptor &&
          other.rules == plugin.rules)
        found = locked.plugins().end();
    if (found == locked.plugins().end()) continue;
    return fmt::format("{} of '{}' is another one",
                       found->library != plugin.library         ? "the library"
                       : found->descriptor != plugin.descriptor ? "the descriptor"
                                                                : "a rule file",
                       plugin.id);
  }
  for (const auto& plugin : locked.plugins())
    if (std::none_of(now.plugins().begin(), now.plugins().end(),
                     [&](const auto& other) { return other.id == plugin.id; }))
      return fmt::format("'{}' is in it and no longer enabled", plugin.id);
  return "its text is not what this version writes";
}

Result<void> lock(const PluginLockOptions& options) {
  FE_CHECK(options.pipeline.enable_log());
  if (options.pipeline.manifest.empty())
    return core::at("--manifest", error(FE_EINVALID, "FE-C01",
                                        "a lock file belongs to a manifest; name it with "
                                        "--manifest FILE"));
  for (const auto& [option, given] : {std::pair{"--plugin", !options.pipeline.plugins.empty()},
                                      std::pair{"--profile", !options.pipeline.profile.empty()},
                                      std::pair{"--safe-mode", options.pipeline.safe_mode}})
    if (given)
      return core::at(option, error(FE_EINVALID, "FE-C01",
                                    "a lock file holds what the manifest enables, with each of "
                                    "its profiles; leave the option out"));
  FE_TRY(const auto now, Lock::make(options.pipeline.request()));
  if (!options.check) {
    FE_CHECK(write(now.path(), now.text()));
    fmt::print("{}: {} plugins\n", now.path(), now.plugins().size());
    return {};
  }
  FE_TRY(const auto text, core::plugin::read_text_file(now.path()));
  FE_TRY(const auto locked, Lock::parse(text, now.path()));
  if (text != now.text())
    return core::at(now.path() + ":1:1", error(FE_EINVALID, "FE-M24",
                                               "the lock file does not fit {}: {}; run `ferrite plugin lock`",
                                               options.pipeline.manifest, difference(locked, now)));
  fmt::print("{}: {} as locked\n", now.path(), counted(now.plugins().size(), "plugin"));
  return {};
}

}  // namespace

Run add_plugin_lock(CLI::App& command) {
  auto options = std::make_shared<PluginLockOptions>();
  command.add_flag("--check", options->check, "Write nothing; fail where the lock file does not fit");
  options->pipeline.add_to(command);
  return [options] {
    auto done = lock(*options);
    return done ? 0 : report(done.error());
  };
}

}  // namespace ferrite::cli
