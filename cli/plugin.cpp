// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// ferrite plugin list: what is loaded and why, what was found and is not enabled.
#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "cli/common.h"
#include "core/plugin/descriptor.h"

namespace ferrite::cli {
namespace {

struct Options {
  PipelineOptions pipeline;
};

std::string contributions_text(const core::plugin::Registry& registry,
                               const core::plugin::LoadedPlugin& plugin) {
  size_t ops = 0;
  for (const auto* op : registry.ops().all()) ops += op->plugin == plugin.id;
  auto count = [&](const auto& list) {
    return static_cast<size_t>(
        std::count_if(list.begin(), list.end(), [&](const auto& entry) { return entry.plugin == &plugin; }));
  };
  std::vector<std::string> parts;
  auto add = [&](size_t number, std::string_view one, std::string_view many) {
    if (number > 0) parts.push_back(fmt::format("{} {}", number, number == 1 ? one : many));
  };
  add(ops, "op", "ops");
  add(count(registry.passes()), "pass or rule", "passes and rules");
  add(count(registry.rule_sets()), "rule set", "rule sets");
  add(count(registry.importers()), "importer", "importers");
  add(count(registry.providers()), "provider", "providers");
  add(count(registry.runtimes()), "runtime", "runtimes");
  return fmt::format("{}", fmt::join(parts, ", "));
}

Result<void> list(const Options& options) {
  FE_TRY(auto pipeline, options.pipeline.read());
  FE_TRY(auto session, core::Session::open(pipeline));
  fmt::print("loaded, by {}:\n", fmt::join(pipeline.manifests, ", which extends "));
  std::set<std::string> ids;
  for (const auto& plugin : session->registry().plugins()) {
    ids.insert(plugin->id);
    fmt::print("  {} {}\n    why: {}\n    library: {}\n    gives: {}\n", plugin->id, plugin->version,
               plugin->why, plugin->library.empty() ? "none, rule files only" : plugin->library,
               contributions_text(session->registry(), *plugin));
  }
  for (const auto& request : pipeline.plugins)
    if (!request.id.empty() && !ids.contains(request.id))
      fmt::print("  {}: skipped, as on_error = \"skip\" says; --log plugins shows why\n", request.id);
  std::map<std::string, std::string> others;
  for (const auto& folder : pipeline.search) {
    std::error_code failed;
    for (const auto& entry : std::filesystem::directory_iterator(folder, failed)) {
      auto name = entry.path().filename().string();
      if (!name.ends_with(core::plugin::descriptor_suffix)) continue;
      auto id = name.substr(0, name.size() - core::plugin::descriptor_suffix.size());
      if (!ids.contains(id)) others.emplace(id, entry.path().string());
    }
  }
  if (!others.empty()) fmt::print("found, not enabled:\n");
  for (const auto& [id, path] : others) fmt::print("  {} ({})\n", id, path);
  return {};
}

}  // namespace

Run add_plugin(CLI::App& command) {
  auto options = std::make_shared<Options>();
  auto* listing = command.add_subcommand("list", "What is loaded and why");
  options->pipeline.add_to(*listing);
  command.require_subcommand(1);
  return [options] {
    auto done = list(*options);
    return done ? 0 : report(done.error());
  };
}

}  // namespace ferrite::cli
