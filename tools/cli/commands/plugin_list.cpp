// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// ferrite plugin list: the loaded plugins with the reasons, and the plugins that were found but are not
// enabled.
#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "core/ir/graph/print.h"
#include "core/support/abi/abi.h"
#include "driver/config/descriptor.h"
#include "tools/cli/commands/plugin.h"

namespace ferrite::cli {
namespace {

namespace plugin = core::plugin;

struct PluginListOptions {
  PipelineOptions pipeline;
  bool why = false;
};

std::string contributions_text(const plugin::Registry& registry, const plugin::LoadedPlugin& loaded) {
  size_t ops = 0;
  for (const auto* op : registry.ops().all()) ops += op->plugin == loaded.id;
  auto count = [&](const auto& list) {
    return static_cast<size_t>(
        std::count_if(list.begin(), list.end(), [&](const auto& entry) { return entry.plugin == &loaded; }));
  };
  std::vector<std::string> parts;
  auto add = [&](size_t number, std::string_view one, std::string_view many) {
    if (number > 0) parts.push_back(fmt::format("{} {}", number, number == 1 ? one : many));
  };
  add(ops, "op", "ops");
  add(count(registry.passes()), "pass or rule", "passes and rules");
  add(count(registry.rule_sets()), "rule set", "rule sets");
  add(count(registry.importers()), "importer", "importers");
  add(count(registry.import_handlers()), "import handler", "import handlers");
  const auto& aliases = registry.aliases();
  add(static_cast<size_t>(
          std::ranges::count_if(aliases, [&](const auto& item) { return item.second.plugin == &loaded; })),
      "alias", "aliases");
  add(count(registry.providers()), "provider", "providers");
  add(count(registry.runtimes()), "runtime", "runtimes");
  add(count(registry.fusion_policies()), "fusion policy", "fusion policies");
  add(count(registry.cost_models()), "cost model", "cost models");
  add(count(registry.metric_sinks()), "metric sink", "metric sinks");
  return fmt::format("{}", fmt::join(parts, ", "));
}

/// Prints every contribution by its name.
void print_contributions(const plugin::Registry& registry, const plugin::LoadedPlugin& loaded) {
  std::vector<std::string> names;
  const auto print = [&](std::string_view kind) {
    if (!names.empty()) fmt::print("      {}: {}\n", kind, fmt::join(names, ", "));
    names.clear();
  };
  for (const auto* op : registry.ops().all())
    if (op->plugin == loaded.id) names.emplace_back(core::abi::view(op->def.name));
  print("ops");
  for (const auto& pass : registry.passes())
    if (pass.plugin == &loaded)
      names.push_back(fmt::format("{} ({}{})", pass.name, pass.phase, pass.enabled ? "" : ", disabled"));
  print("passes");
  for (const auto& pass : registry.passes())
    if (pass.plugin == &loaded) names.insert(names.end(), pass.rules.begin(), pass.rules.end());
  print("rules");
  for (const auto& importer : registry.importers())
    if (importer.plugin == &loaded) names.emplace_back(core::abi::view(importer.table->extensions));
  print("imports");
  for (const auto& handler : registry.import_handlers())
    if (handler.plugin == &loaded) names.emplace_back(core::abi::view(handler.table->source));
  print("import handlers");
  for (const auto& [source, entry] : registry.aliases())
    if (entry.plugin == &loaded) names.push_back(fmt::format("{} = {}", source, entry.alias.op));
  print("aliases");
  const auto advice = [&](const auto& list, std::string_view kind) {
    for (const auto& entry : list)
      if (entry.plugin == &loaded) names.emplace_back(core::abi::view(entry.table->id));
    print(kind);
  };
  advice(registry.fusion_policies(), "fusion policies");
  advice(registry.cost_models(), "cost models");
  advice(registry.metric_sinks(), "metric sinks");
}

/// Prints the places that were searched, requirements and abilities, settings and contributions.
void print_reasons(const plugin::PluginRequest& request) {
  if (!request.descriptor.empty())
    fmt::print("    descriptor: {}{}\n", request.descriptor, request.given ? ", by --plugin" : "");
  for (const auto& path : request.tried) fmt::print("      not in {}\n", path);
  if (!request.library_sha256.empty()) fmt::print("    locked: SHA-256 {}\n", request.library_sha256);
  if (!request.needs.empty()) fmt::print("    requires: {}\n", fmt::join(request.needs, ", "));
  if (!request.provides.empty()) fmt::print("    provides: {}\n", fmt::join(request.provides, ", "));
  fmt::print("    on error: {}, runs {}\n", request.on_error == plugin::OnError::skip ? "skip" : "fail",
             request.isolation == plugin::Isolation::process ? "in a process of its own" : "in this process");
  for (const auto& setting : request.config) {
    const auto doc = request.config_docs.find(setting.name);
    fmt::print("    {} = {}{}\n", setting.name, core::graph::print_attribute_value(setting.value),
               doc == request.config_docs.end() ? "" : ": " + doc->second);
  }
}

void print_search(const core::config::Pipeline& pipeline) {
  fmt::print("searched, in this order:\n");
  for (const auto& folder : pipeline.search) {
    std::error_code failed;
    fmt::print("  {}{}\n", folder, std::filesystem::is_directory(folder, failed) ? "" : " (there is none)");
  }
  if (!pipeline.profiles.empty()) fmt::print("profiles: {}\n", fmt::join(pipeline.profiles, ", "));
  if (!pipeline.lock.empty()) fmt::print("locked by: {}\n", pipeline.lock);
}

/// The request by which a plugin was loaded: that of its id or, for one without a descriptor, of its library.
const plugin::PluginRequest& request_of(const core::config::Pipeline& pipeline,
                                        const plugin::LoadedPlugin& loaded) {
  return *std::find_if(pipeline.plugins.begin(), pipeline.plugins.end(), [&](const auto& request) {
    return request.id == loaded.id || (request.id.empty() && request.library == loaded.library);
  });
}

Result<void> list(const PluginListOptions& options) {
  FE_TRY(auto pipeline, options.pipeline.read());
  FE_TRY(auto session, core::Session::open(pipeline));
  if (options.why) print_search(pipeline);
  fmt::print("loaded, by {}:\n", fmt::join(pipeline.manifests, ", which extends "));
  std::set<std::string> ids;
  for (const auto& loaded : session->registry().plugins()) {
    ids.insert(loaded->id);
    fmt::print("  {} {}\n    why: {}\n    library: {}\n", loaded->id, loaded->version, loaded->why,
               loaded->library.empty() ? "none" : loaded->library);
    if (options.why) print_reasons(request_of(pipeline, *loaded));
    fmt::print("    gives: {}\n", contributions_text(session->registry(), *loaded));
    if (options.why) print_contributions(session->registry(), *loaded);
  }
  for (const auto& request : pipeline.plugins)
    if (!request.id.empty() && !ids.contains(request.id))
      fmt::print(
          "  {}: skipped, as on_error = \"skip\" says{}\n", request.id,
          options.why && request.fault ? ": " + request.fault->message() : "; --log plugins shows why");
  std::map<std::string, std::string> others;
  for (const auto& folder : pipeline.search) {
    std::error_code failed;
    for (const auto& entry : std::filesystem::directory_iterator(folder, failed)) {
      auto name = entry.path().filename().string();
      if (!name.ends_with(plugin::descriptor_suffix)) continue;
      auto id = name.substr(0, name.size() - plugin::descriptor_suffix.size());
      if (!ids.contains(id)) others.emplace(id, entry.path().string());
    }
  }
  if (!others.empty()) fmt::print("found, not enabled:\n");
  for (const auto& [id, path] : others) fmt::print("  {} ({})\n", id, path);
  return {};
}

}  // namespace

Run add_plugin_list(CLI::App& command) {
  auto options = std::make_shared<PluginListOptions>();
  command.add_flag(
      "--why", options->why,
      "Also the folders searched, where each plugin was looked for, its settings, all that it gives");
  options->pipeline.add_to(command);
  return [options] {
    auto done = list(*options);
    return done ? 0 : report(done.error());
  };
}

}  // namespace ferrite::cli
