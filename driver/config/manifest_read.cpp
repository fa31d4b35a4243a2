// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "driver/config/manifest_read.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <map>
#include <set>

#include "core/select/tuning_options.h"
#include "core/support/suggest.h"
#include "driver/config/descriptor.h"
#include "driver/config/schema.h"

namespace ferrite::core::config {
namespace {

namespace fs = std::filesystem;

constexpr size_t deepest_extends = 16;

/// The "expect" of a pass or rule; the table was checked, so it is a string.
Result<std::optional<Expectation>> read_expectation(const TomlTable& table) {
  const auto text = table.string("expect");
  if (!text) return std::optional<Expectation>();
  Expectation result;
  result.text = *text;
  result.where = table.place("expect");
  std::string_view rest = *text;
  const auto skip_spaces = [&] { rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size())); };
  skip_spaces();
  const auto operation = rest.substr(0, 2);
  rest.remove_prefix(operation.size());
  skip_spaces();
  size_t count = 0;
  const auto [after, fault] = std::from_chars(rest.data(), rest.data() + rest.size(), count);
  rest.remove_prefix(static_cast<size_t>(after - rest.data()));
  skip_spaces();
  if (fault != std::errc() || !rest.empty() || (operation != ">=" && operation != "<=" && operation != "=="))
    return at(result.where, error(FE_EINVALID, "FE-M03",
                                  "'expect' is a condition on a number of applications, as in \">=1\", "
                                  "\"<=8\" or \"==12\", not \"{}\"",
                                  *text));
  if (operation != "<=") result.least = count;
  if (operation != ">=") result.most = count;
  return std::optional(std::move(result));
}

/// Whether these are names of devices, present or not: "cpu", "npu:1,cpu".
bool are_devices(std::string_view names) {
  for (;;) {
    const auto name = names.substr(0, names.find(','));
    const auto colon = name.find(':');
    const bool numbered = colon != std::string_view::npos;
    if (name.empty() || colon == 0) return false;
    if (numbered && (colon + 1 == name.size() ||
                     name.find_first_not_of("0123456789", colon + 1) != std::string_view::npos))
      return false;
    if (name.size() == names.size()) return true;
    names.remove_prefix(name.size() + 1);
  }
}

class Reader {
 public:
  explicit Reader(std::string profile) : profile_(std::move(profile)), files_(installed_files()) {}

  Result<void> read_text(std::string_view text, const std::string& path, size_t depth);
  Result<ManifestContent> finish();

 private:
  Result<void> read_extended(const TomlTable& manifest, const std::string& path, size_t depth);
  Result<void> read_part(const TomlTable& part, const std::string& folder);
  Result<void> read_enabled(const TomlTable& part);
  Result<void> read_search(const TomlTable& part, const std::string& folder);
  Result<void> read_plugins(const TomlTable& part, const std::string& folder);
  Result<void> read_passes(const TomlTable& part);
  Result<void> read_pipeline_settings(const TomlTable& part, const std::string& folder);

  bool is_default_manifest(const std::string& path) const {
    return absolute_path(path) == absolute_path(files_.default_manifest);
  }

  std::string profile_;
  bool has_profile_ = false;
  bool in_default_ = false;  ///< the text being read is that of the default manifest
  InstalledFiles files_;
  ManifestContent content_;
};

Result<void> Reader::read_text(std::string_view text, const std::string& path, size_t depth) {
  FE_TRY(auto document, parse_toml(text, path));
  TomlTable manifest(document, path, "");
  FE_CHECK(manifest.check(manifest_keys()));
  // The base first: what this file says then replaces what the base says.
  FE_CHECK(read_extended(manifest, path, depth));
  // Set after the base was read, which may itself be the default manifest.
  in_default_ = is_default_manifest(path);
  auto& pipeline = content_.pipeline;
  pipeline.manifests.insert(pipeline.manifests.begin(), path);
  const auto folder = fs::path(absolute_path(path)).parent_path().string();
  FE_CHECK(read_part(manifest, folder));
  for (const auto& [name, profile] : manifest.tables("profile")) {
    if (std::find(pipeline.profiles.begin(), pipeline.profiles.end(), name) == pipeline.profiles.end())
      pipeline.profiles.push_back(name);
    if (name != profile_) continue;
    has_profile_ = true;
    FE_CHECK(read_part(profile, folder));
  }
  return {};
}

Result<void> Reader::read_extended(const TomlTable& manifest, const std::string& path, size_t depth) {
  const bool is_default = is_default_manifest(path);
  // The default manifest would otherwise extend itself.
  const auto extends = manifest.string("extends").value_or(is_default ? "none" : "default");
  if (extends == "none") return {};
  const auto base = extends == "default"
                        ? files_.default_manifest
                        : (fs::path(absolute_path(path)).parent_path() / extends).lexically_normal().string();
  // A bound instead of a search for circles: links and .. give one file many paths.
  if (depth >= deepest_extends)
    return at(manifest.place("extends"),
              error(FE_EINVALID, "FE-M15",
                    "manifests extend each other {} deep; do they form a circle? Drop one 'extends'", depth));
  auto text = read_text_file(base);
  if (!text)
    return at(manifest.place("extends"),
              error(text.error().status, text.error().code,
                    "cannot extend {}: {}; write \"default\", \"none\" or the path of a manifest{}", base,
                    fault_of(text.error()),
                    did_you_mean(extends, std::array<std::string_view, 2>{"default", "none"})));
  return read_text(*text, base, depth + 1);
}

/// Reads the keys that a manifest and each of its profiles can have.
Result<void> Reader::read_part(const TomlTable& part, const std::string& folder) {
  FE_CHECK(read_enabled(part));
  FE_CHECK(read_search(part, folder));
  FE_CHECK(read_plugins(part, folder));
  FE_CHECK(read_passes(part));
  return read_pipeline_settings(part, folder);
}

Result<void> Reader::read_enabled(const TomlTable& part) {
  auto& all = content_.enabled;
  std::map<std::string, std::string, std::less<>> enabled;  // with the place
  // Manifests disable what their base enables, so `disable` is applied before `enable`.
  for (const auto& plugin : all) enabled.emplace(plugin.id, plugin.why);
  std::vector<std::string> places;
  const auto disable = part.strings("disable", &places);
  std::set<std::string_view> disabled;
  for (size_t k = 0; k < disable.size(); ++k) {
    if (!disabled.insert(disable[k]).second)
      return at(places[k], error(FE_EINVALID, "FE-M08", "'{}' is already disabled at {}; drop one of the two",
                                 disable[k], content_.disabled[disable[k]]));
    if (enabled.erase(disable[k]) == 0) {
      std::vector<std::string_view> ids;
      for (const auto& [id, where] : enabled) ids.push_back(id);
      return at(places[k],
                error(FE_EINVALID, "FE-M05", "'{}' is not enabled by what this manifest extends; drop it{}",
                      disable[k], did_you_mean(disable[k], ids)));
    }
    content_.disabled[disable[k]] = places[k];
    content_.settings.erase(disable[k]);  // earlier settings belong to no plugin any more
  }
  if (!disable.empty()) {
    // Earlier settings may be for passes of the disabled plugin; the names are unknown until plugins are
    // loaded.
    for (auto& pass : content_.pipeline.passes) pass.may_be_gone = true;
    for (auto& rule : content_.pipeline.rules) rule.may_be_gone = true;
  }
  std::erase_if(all, [&](const EnabledPlugin& plugin) { return disabled.contains(plugin.id); });
  places.clear();
  const auto enable = part.strings("enable", &places);
  for (size_t k = 0; k < enable.size(); ++k) {
    if (!valid_id(enable[k]))
      return at(places[k],
                error(FE_EINVALID, "FE-M03",
                      "'{}' is no plugin id; letters, digits, '_' and '-' joined by points", enable[k]));
    const auto [other, added] = enabled.emplace(enable[k], places[k]);
    if (!added)
      return at(places[k], error(FE_EINVALID, "FE-M08", "'{}' is already enabled at {}; drop one of the two",
                                 enable[k], other->second));
    all.push_back({enable[k], places[k]});
  }
  return {};
}

Result<void> Reader::read_search(const TomlTable& part, const std::string& folder) {
  std::vector<std::string> places, folders;
  const auto search = part.strings("search", &places);
  for (size_t k = 0; k < search.size(); ++k) {
    if (search[k].empty())
      return at(places[k],
                error(FE_EINVALID, "FE-M03",
                      "'search' has an empty path; write \".\" for the folder of this file, or drop it"));
    auto searched = (fs::path(folder) / search[k]).lexically_normal().string();
    std::error_code failed;
    if (!fs::is_directory(searched, failed))
      return at(places[k], error(FE_EINVALID, "FE-M06",
                                 "there is no folder {}; create it, or correct the path", searched));
    folders.push_back(std::move(searched));
  }
  auto& all = content_.pipeline.search;
  // Folders of an extending manifest are searched first, so that it can replace a plugin.
  all.insert(all.begin(), folders.begin(), folders.end());
  return {};
}

Result<void> Reader::read_plugins(const TomlTable& part, const std::string& folder) {
  const auto all = part.table("plugin");
  for (const auto& [id, table] : part.tables("plugin")) {
    auto& settings = content_.settings[id];
    settings.where = all->place(id);
    if (auto library = table.string("library")) {
      settings.library_where = table.place("library");
      settings.library = *library;
      // A relative path must not leave the manifest's folder: a manifest may come from elsewhere.
      if (!fs::path(*library).is_absolute()) {
        auto inside = path_within(folder, *library);
        if (!inside) return at(settings.library_where, std::move(inside.error()));
        settings.library = *inside;
      }
    }
    if (auto on_error = table.string("on_error"))
      settings.on_error = *on_error == "skip" ? OnError::skip : OnError::fail;
    if (auto isolation = table.string("isolation")) {
      settings.isolation_where = table.place("isolation");
      settings.isolation = *isolation == "process" ? Isolation::process : Isolation::in_process;
    }
    if (auto process = table.table("process")) {
      auto& limits = settings.process;
      settings.process_where = table.place("process");
      if (auto timeout = process->integer("timeout_ms")) limits.timeout = std::chrono::milliseconds(*timeout);
      if (auto memory = process->integer("memory_mib")) limits.memory = static_cast<uint64_t>(*memory) << 20;
      if (auto starts = process->integer("starts")) limits.starts = static_cast<uint32_t>(*starts);
    }
    if (auto config = table.table("config")) FE_CHECK(read_settings(*config, settings.config));
  }
  return {};
}

Result<void> Reader::read_passes(const TomlTable& part) {
  const auto passes = part.table("pass"), rules = part.table("rule");
  for (const auto& [name, table] : part.tables("pass")) {
    PassOverride change;
    change.name = name;
    change.where = passes->place(name);
    change.enabled = table.boolean("enabled");
    change.after = table.strings("after", &change.after_places);
    change.before = table.strings("before", &change.before_places);
    change.limits = read_limits(table);
    FE_TRY(change.expect, read_expectation(table));
    content_.pipeline.passes.push_back(std::move(change));
  }
  for (const auto& [name, table] : part.tables("rule")) {
    RuleOverride change{name, {}, rules->place(name)};
    FE_TRY(change.expect, read_expectation(table));
    content_.pipeline.rules.push_back(std::move(change));
  }
  return {};
}

Result<void> Reader::read_pipeline_settings(const TomlTable& part, const std::string& folder) {
  const auto settings = part.table("pipeline");
  if (!settings) return {};
  auto& pipeline = content_.pipeline;
  using schedule::Feature;
  if (auto fuse = settings->boolean("fuse"))
    *fuse ? pipeline.without.remove(Feature::fuse) : pipeline.without.add(Feature::fuse);
  for (const auto& name : settings->strings("without")) pipeline.without.add(*schedule::feature_named(name));
  if (auto device = settings->string("device")) {
    if (!are_devices(*device))
      return at(
          settings->place("device"),
          error(FE_EINVALID, "FE-M17",
                "'{}' names no device; write a kind and a number if wanted, as in \"cpu:0\", several with "
                "commas between",
                *device));
    pipeline.device = device;
    pipeline.device_chosen = !in_default_;
    pipeline.device_where = settings->place("device");
  }
  if (auto threads = settings->integer("threads")) pipeline.threads = threads;
  if (auto limit = settings->integer("memory_limit")) pipeline.memory_limit = limit;
  if (auto cache = settings->string("cache")) {
    if (cache->empty())
      return at(
          settings->place("cache"),
          error(FE_EINVALID, "FE-M03", "'cache' is empty; write \"on\", \"off\" or the path of a folder"));
    pipeline.cache =
        *cache == "on" || *cache == "off" ? *cache : (fs::path(folder) / *cache).lexically_normal().string();
  }
  if (auto tf32 = settings->boolean("tf32")) pipeline.tf32 = tf32;
  if (auto tune = settings->string("tune")) {
    tune::Options read;
    if (auto valid = tune::read_mode(*tune, read); !valid)
      return at(settings->place("tune"), std::move(valid.error()));
    pipeline.tune = *tune;
  }
  if (auto validation = settings->string("validate_rules"))
    pipeline.validate_rules = *validation == "off"  ? RuleValidation::off
                              : *validation == "on" ? RuleValidation::on
                                                    : RuleValidation::strict;
  return {};
}

Result<ManifestContent> Reader::finish() {
  if (!profile_.empty() && !has_profile_) {
    const auto& profiles = content_.pipeline.profiles;
    return at("--profile " + profile_,
              error(FE_EINVALID, "FE-M19", "there is no [profile.{}] in {}; {}{}", profile_,
                    fmt::join(content_.pipeline.manifests, ", which extends "),
                    profiles.empty() ? std::string("it has no profiles")
                                     : fmt::format("the profiles are {}", fmt::join(profiles, ", ")),
                    did_you_mean(profile_, name_views(profiles))));
  }
  // Checked at the end, because a base or a profile may say which process the limits are for.
  for (const auto& [id, settings] : content_.settings)
    if (!settings.process_where.empty() && !settings.isolation)
      return at(
          settings.process_where,
          error(FE_EINVALID, "FE-M03",
                "'process' of [plugin.\"{}\"] is for a plugin in a process of its own; write isolation = "
                "\"process\" too, or drop it",
                id));
  return std::move(content_);
}

}  // namespace

std::string absolute_path(const std::string& path) {
  std::error_code failed;
  const auto whole = fs::absolute(path, failed);
  return (failed ? fs::path(path) : whole).lexically_normal().string();
}

std::vector<std::string_view> name_views(const std::vector<std::string>& names) {
  return {names.begin(), names.end()};
}

Result<ManifestContent> read_manifest(std::string_view text, const std::string& path,
                                      const std::string& profile) {
  Reader reader(profile);
  FE_CHECK(reader.read_text(text, path, 0));
  return reader.finish();
}

}  // namespace ferrite::core::config
