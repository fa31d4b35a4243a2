// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "driver/config/find_plugins.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <sstream>

#include "core/support/split.h"
#include "core/support/suggest.h"
#include "driver/config/descriptor.h"

namespace ferrite::core::config {
namespace {

namespace fs = std::filesystem;

/// The descriptors of a folder, by name.
std::vector<std::string> descriptors_in(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(folder, failed))
    if (entry.path().string().ends_with(descriptor_suffix)) files.push_back(entry.path().string());
  std::sort(files.begin(), files.end());
  return files;
}

/// Reads a descriptor that was found by its file name, which must be the plugin's id. FE-M05 where the id in
/// it differs.
Result<Descriptor> read_descriptor(const std::string& path) {
  FE_TRY(auto descriptor, Descriptor::read(path));
  const auto name = fs::path(path).filename().string();
  if (name != descriptor.id + std::string(descriptor_suffix))
    return at(descriptor.places["id"],
              error(FE_EINVALID, "FE-M05",
                    "the descriptor says id = \"{}\", its file is called {}, not {}{}; correct one of them",
                    descriptor.id, name, descriptor.id, descriptor_suffix));
  return descriptor;
}

class Finder {
 public:
  Finder(ManifestContent content, const PipelineRequest& request, const Lock* lock)
      : request_(request),
        lock_(lock),
        enabled_(std::move(content.enabled)),
        disabled_(std::move(content.disabled)),
        settings_(std::move(content.settings)),
        pipeline_(std::move(content.pipeline)) {
    if (request.tf32) pipeline_.tf32 = true;
  }

  Result<Pipeline> run();

 private:
  static constexpr size_t nowhere = SIZE_MAX;

  void find_folders();
  void find_device_plugins();
  Result<void> enable_device_plugins(std::vector<PluginRequest>& requests);
  Result<void> add_path(const std::string& given);
  Result<void> add_descriptor(Descriptor descriptor, const std::string& why);
  Result<void> check_settings_of_others() const;
  Result<PluginRequest> request_for(const EnabledPlugin& enabled);
  Result<PluginRequest> find(const EnabledPlugin& enabled);
  Result<std::optional<Descriptor>> find_descriptor(const EnabledPlugin& enabled,
                                                    PluginRequest& request) const;
  Result<void> take_descriptor(Descriptor descriptor, PluginRequest& request);
  Result<void> settle_config(PluginRequest& request) const;
  Error unknown_plugin(const EnabledPlugin& enabled) const;
  size_t provider_of(const Requirement& need) const;
  Error missing_requirement(const EnabledPlugin& plugin, const Requirement& need) const;
  Result<void> check_provided() const;
  Result<std::vector<size_t>> load_order() const;
  Result<void> skip_what_lacks_a_requirement(const std::vector<size_t>& order,
                                             std::vector<PluginRequest>& requests) const;
  void find_idle_names();

  const PipelineRequest& request_;
  const Lock* lock_;
  std::vector<EnabledPlugin> enabled_;
  std::map<std::string, std::string, std::less<>> disabled_;
  std::map<std::string, PluginSettings, std::less<>> settings_;
  Pipeline pipeline_;
  std::map<std::string, Descriptor, std::less<>> given_;  // by --plugin
  std::vector<PluginRequest> bare_;                       // libraries without a descriptor
  std::map<std::string, EnabledPlugin, std::less<>>
      device_plugins_;  // built-in ones, by the kind of device that is named
  std::set<std::string, std::less<>> device_plugin_ids_;        // of all built-in ones
  std::map<std::string, Descriptor, std::less<>> descriptors_;  // of enabled plugins
};

void Finder::find_folders() {
  std::vector<std::string> folders;
  const char* path = request_.safe_mode ? nullptr : secure_getenv("FERRITE_PLUGIN_PATH");
  for (const auto folder : split(path ? path : "", ':'))
    if (!folder.empty()) folders.push_back(absolute_path(std::string(folder)));
  auto& search = pipeline_.search;
  search.insert(search.begin(), folders.begin(), folders.end());
  if (auto built_in = installed_files().plugin_folder; !built_in.empty())
    search.push_back(std::move(built_in));
}

/// Finds the built-in plugins that provide the named devices, or compile for the targets.
void Finder::find_device_plugins() {
  const auto& given = request_.devices;
  const std::string names = given.empty() ? pipeline_.device.value_or("") : given;
  std::set<std::string, std::less<>> kinds;
  for (const auto name : split(names, ',')) kinds.emplace(name.substr(0, name.find(':')));
  const bool by_manifest = given.empty() && !pipeline_.device_where.empty();
  const std::string why = by_manifest ? pipeline_.device_where : fmt::format("device {}", names);
  for (const auto& file : descriptors_in(installed_files().plugin_folder)) {
    const auto descriptor = read_descriptor(file);
    if (!descriptor || disabled_.contains(descriptor->id)) continue;
    std::error_code failed;
    const bool is_built = fs::is_regular_file(descriptor->library, failed);
    for (const auto& pattern : descriptor->targets)
      for (const auto& target : request_.targets)
        if (is_built && pattern.matches(target))
          device_plugins_.emplace(pattern.kind, EnabledPlugin{descriptor->id, "--target " + target});
    for (std::string_view ability : descriptor->provides) {
      if (!ability.starts_with(device_ability)) continue;
      const auto kind = ability.substr(device_ability.size());
      device_plugin_ids_.insert(descriptor->id);
      if (is_built) pipeline_.device_kinds.emplace_back(kind);
      const bool needed = is_built && (names == every_device ||
                                       std::ranges::find(request_.kinds, kind) != request_.kinds.end());
      if (needed || kinds.contains(kind)) device_plugins_.emplace(kind, EnabledPlugin{descriptor->id, why});
    }
  }
}

/// Enables those of them that no enabled plugin replaces.
Result<void> Finder::enable_device_plugins(std::vector<PluginRequest>& requests) {
  for (const auto& [kind, plugin] : device_plugins_) {
    const std::string ability = std::string(device_ability) + kind;
    if (std::ranges::any_of(descriptors_, [&](const auto& known) {
          return std::ranges::find(known.second.provides, ability) != known.second.provides.end();
        }))
      continue;
    FE_TRY(auto request, request_for(plugin));
    enabled_.push_back(plugin);
    requests.push_back(std::move(request));
  }
  return {};
}

Result<void> Finder::add_descriptor(Descriptor descriptor, const std::string& why) {
  if (auto other = given_.find(descriptor.id); other != given_.end())
    return at(why, error(FE_EINVALID, "FE-M08", "plugin '{}' is given twice: {} and {}", descriptor.id,
                         other->second.path, descriptor.path));
  const bool listed =
      std::any_of(enabled_.begin(), enabled_.end(), [&](const auto& e) { return e.id == descriptor.id; });
  if (!listed) enabled_.push_back({descriptor.id, why});
  given_.emplace(descriptor.id, std::move(descriptor));
  return {};
}

/// Handles one --plugin: a library, a descriptor or a folder of descriptors.
Result<void> Finder::add_path(const std::string& given) {
  const std::string path = absolute_path(given), why = given.empty() ? "--plugin ''" : "--plugin " + given;
  std::error_code failed;
  if (!given.empty() && fs::is_directory(path, failed)) {
    const auto found = descriptors_in(path);
    if (found.empty())
      return at(why, error(FE_EINVALID, "FE-M05", "the folder holds no *{}", descriptor_suffix));
    for (const auto& file : found) {
      FE_TRY(auto descriptor, Descriptor::read(file));
      FE_CHECK(add_descriptor(std::move(descriptor), why));
    }
    return {};
  }
  if (given.empty() || !fs::exists(path, failed))
    return at(why, error(FE_EINVALID, "FE-M06", "there is no such file or folder"));
  if (!fs::is_regular_file(path, failed))
    return at(
        why, error(FE_EINVALID, "FE-M06", "it is no regular file; give a library, a descriptor or a folder"));
  if (path.ends_with(".toml")) {
    FE_TRY(auto descriptor, Descriptor::read(path));
    return add_descriptor(std::move(descriptor), why);
  }
  // A library: with the descriptor beside it that names it, else without one.
  for (const auto& file : descriptors_in(fs::path(path).parent_path().string())) {
    auto descriptor = Descriptor::read(file);
    if (descriptor && descriptor->library == path) return add_descriptor(std::move(*descriptor), why);
  }
  PluginRequest request;
  request.library = path;
  request.given = true;
  request.why = why;
  bare_.push_back(std::move(request));
  return {};
}

Error Finder::unknown_plugin(const EnabledPlugin& enabled) const {
  std::vector<std::string> ids;
  for (const auto& [id, descriptor] : given_) ids.push_back(id);
  for (const auto& folder : pipeline_.search)
    for (const auto& file : descriptors_in(folder)) {
      auto name = fs::path(file).filename().string();
      ids.push_back(name.substr(0, name.size() - descriptor_suffix.size()));
    }
  std::sort(ids.begin(), ids.end());
  return at(
      enabled.why,
      error(FE_EINVALID, "FE-M05",
            "there is no plugin '{}' ({}{}); add its folder to 'search' or FERRITE_PLUGIN_PATH, or load "
            "it with --plugin{}",
            enabled.id, enabled.id + std::string(descriptor_suffix),
            pipeline_.search.empty() ? std::string(" and no folder to search it in")
                                     : fmt::format(" in none of {}", fmt::join(pipeline_.search, ", ")),
            did_you_mean(enabled.id, name_views(ids))));
}

/// Finds a descriptor given by --plugin, beside the library that a manifest names, or in the searched
/// folders; nothing where there is none.
Result<std::optional<Descriptor>> Finder::find_descriptor(const EnabledPlugin& enabled,
                                                          PluginRequest& request) const {
  if (auto given = given_.find(enabled.id); given != given_.end()) {
    request.given = true;
    return std::optional(given->second);
  }
  std::vector<std::string> folders = pipeline_.search;
  if (!request.library.empty()) folders = {fs::path(request.library).parent_path().string()};
  for (const auto& folder : folders) {
    auto path = (fs::path(folder) / (enabled.id + std::string(descriptor_suffix))).string();
    std::error_code failed;
    if (!fs::exists(path, failed)) {
      request.tried.push_back(std::move(path));
      continue;
    }
    FE_TRY(auto descriptor, read_descriptor(path));
    return std::optional(std::move(descriptor));
  }
  return std::optional<Descriptor>();
}

/// Adds the files, passes and aliases from the descriptor to the request.
Result<void> Finder::take_descriptor(Descriptor descriptor, PluginRequest& request) {
  std::error_code failed;
  if (request.library.empty()) {
    request.library = descriptor.library;
    request.library_place = descriptor.places["library"];
  }
  if (!request.library.empty() && !fs::is_regular_file(request.library, failed))
    return at(descriptor.places["library"],
              error(FE_EINVALID, "FE-M06", "the library {} of plugin '{}' is missing; build or reinstall it",
                    request.library, request.id));
  for (size_t k = 0; k < descriptor.rules.size(); ++k) {
    const auto& path = descriptor.rules[k];
    auto text = read_text_file(path);
    if (!text)
      return at(
          descriptor.rule_places[k],
          error(FE_EINVALID, "FE-M06", "the rule file {} of plugin '{}': {}; add it, or correct 'rules'",
                path, request.id, fault_of(text.error())));
    request.rule_files.emplace_back(path, std::move(*text));
  }
  request.descriptor = descriptor.path;
  request.version = descriptor.version_text;
  request.version_place = descriptor.places["version"];
  request.passes = descriptor.passes;
  request.aliases = descriptor.aliases;
  request.provides = descriptor.provides;
  for (const auto& need : descriptor.requirements) request.needs.push_back(need.id);
  descriptors_.emplace(request.id, std::move(descriptor));
  return {};
}

Result<PluginRequest> Finder::find(const EnabledPlugin& enabled) {
  PluginRequest request;
  request.id = enabled.id;
  request.why = enabled.why;
  std::error_code failed;
  if (auto found = settings_.find(enabled.id); found != settings_.end()) {
    const auto& settings = found->second;
    request.on_error = settings.on_error.value_or(OnError::fail);
    request.isolation = settings.isolation.value_or(Isolation::in_process);
    request.isolation_place = settings.isolation_where;
    request.process_limits = settings.process;
    request.library = settings.library;
    request.library_place = settings.library_where;
    if (!request.library.empty() && !fs::is_regular_file(request.library, failed))
      return at(settings.library_where,
                error(FE_EINVALID, "FE-M06", "there is no library {}; build it, or correct the path",
                      request.library));
  }
  FE_TRY(auto descriptor, find_descriptor(enabled, request));
  if (!descriptor && request.library.empty()) return unknown_plugin(enabled);
  std::string text;
  if (descriptor) {
    text = descriptor->text;
    FE_CHECK(take_descriptor(std::move(*descriptor), request));
  }
  if (lock_ && !request.given) FE_CHECK(lock_->check(request, text));
  return request;
}

/// The plugin that is found, or a request with the reason why it is skipped.
Result<PluginRequest> Finder::request_for(const EnabledPlugin& enabled) {
  auto request = find(enabled);
  if (request) {
    FE_CHECK(settle_config(*request));
    return request;
  }
  auto settings = settings_.find(enabled.id);
  if (settings == settings_.end() || settings->second.on_error != OnError::skip) return request;
  PluginRequest skipped;
  skipped.id = enabled.id;
  skipped.why = enabled.why;
  skipped.on_error = OnError::skip;
  skipped.fault = std::move(request.error());
  return skipped;
}

/// Checks settings against the descriptor's declarations. A plugin without a descriptor declares nothing and
/// accepts any settings.
Result<void> Finder::settle_config(PluginRequest& request) const {
  static const GivenSettings none;
  const auto found = settings_.find(request.id);
  const auto& given = found == settings_.end() ? none : found->second.config;
  if (auto descriptor = descriptors_.find(request.id); descriptor != descriptors_.end()) {
    auto declared = descriptor->second.config;
    if (const auto setting = declared.find("tf32");
        setting != declared.end() && setting->second.type == "boolean" && pipeline_.tf32)
      setting->second.absent = *pipeline_.tf32;
    FE_TRY(request.config, settle_settings(request.id, declared, given));
    for (const auto& [name, setting] : declared)
      if (!setting.doc.empty()) request.config_docs.emplace(name, setting.doc);
    return {};
  }
  for (const auto& [name, setting] : given) request.config.push_back({name, setting.value});
  return {};
}

/// The enabled plugin of that id, else the first one that provides it in a sufficient version, else one that
/// provides an older version.
size_t Finder::provider_of(const Requirement& need) const {
  size_t older = nowhere;
  for (size_t k = 0; k < enabled_.size(); ++k)
    if (enabled_[k].id == need.id) return k;
  for (size_t k = 0; k < enabled_.size(); ++k) {
    auto found = descriptors_.find(enabled_[k].id);
    if (found == descriptors_.end()) continue;
    const auto& provides = found->second.provides;
    if (std::find(provides.begin(), provides.end(), need.id) == provides.end()) continue;
    if (found->second.version >= need.least) return k;
    older = std::min(older, k);
  }
  return older;
}

Error Finder::missing_requirement(const EnabledPlugin& plugin, const Requirement& need) const {
  if (auto place = disabled_.find(need.id); place != disabled_.end())
    return at(place->second, error(FE_EINVALID, "FE-M12",
                                   "plugin '{}' ({}) requires '{}', which is disabled here; disable '{}' "
                                   "too, or drop it from 'disable'",
                                   plugin.id, need.where, need.id, plugin.id));
  std::vector<std::string> names;
  for (const auto& enabled : enabled_) names.push_back(enabled.id);
  for (const auto& [id, descriptor] : descriptors_)
    names.insert(names.end(), descriptor.provides.begin(), descriptor.provides.end());
  // The plugin exists but is not enabled, so its name is not misspelled.
  const bool found = std::any_of(pipeline_.search.begin(), pipeline_.search.end(), [&](const auto& folder) {
    std::error_code failed;
    return fs::exists(fs::path(folder) / (need.id + std::string(descriptor_suffix)), failed);
  });
  return at(need.where,
            error(FE_EINVALID, "FE-M12",
                  "plugin '{}' requires '{}', which is not enabled and which nothing that is provides; add "
                  "it, or a plugin that provides it, to 'enable'{}",
                  plugin.id, need.id, found ? std::string() : did_you_mean(need.id, name_views(names))));
}

/// A plugin and its replacement cannot both be enabled.
Result<void> Finder::check_provided() const {
  for (const auto& enabled : enabled_)
    for (const auto& [id, descriptor] : descriptors_)
      if (id != enabled.id && std::ranges::find(descriptor.provides, enabled.id) != descriptor.provides.end())
        return at(descriptor.places.at("provides"),
                  error(FE_EINVALID, "FE-M08",
                        "plugin '{}' provides '{}', which is enabled itself at {}; disable one of the two",
                        id, enabled.id, enabled.why));
  return {};
}

/// Loads a plugin's requirements before it; otherwise keeps the order of enabling.
Result<std::vector<size_t>> Finder::load_order() const {
  std::vector<size_t> order;
  std::vector<int> state(enabled_.size(), 0);  // 1: being placed, 2: placed
  // An explicit stack: the length of a chain of requirements is not limited, and recursion could overflow.
  for (size_t start = 0; start < enabled_.size(); ++start) {
    std::vector<std::pair<size_t, size_t>> stack;
    if (state[start] == 0) stack.emplace_back(start, 0);
    while (!stack.empty()) {
      auto& [k, next] = stack.back();
      state[k] = 1;
      auto descriptor = descriptors_.find(enabled_[k].id);
      if (descriptor == descriptors_.end() || next == descriptor->second.requirements.size()) {
        state[k] = 2;
        order.push_back(k);
        stack.pop_back();
        continue;
      }
      const auto& need = descriptor->second.requirements[next++];
      const size_t other = provider_of(need);
      if (other == nowhere) return missing_requirement(enabled_[k], need);
      if (auto found = descriptors_.find(enabled_[other].id);
          found != descriptors_.end() && found->second.version < need.least)
        return at(need.where,
                  error(FE_EINVALID, "FE-M12", "plugin '{}' requires '{}' >= {}.{}.{}, {} is {}; update it",
                        enabled_[k].id, need.id, need.least.major, need.least.minor, need.least.patch,
                        found->second.path, found->second.version_text));
      if (other == k)
        return at(need.where, error(FE_EINVALID, "FE-M12",
                                    "plugin '{}' requires itself; drop the requirement", enabled_[k].id));
      if (state[other] == 1)
        return at(need.where, error(FE_EINVALID, "FE-M12",
                                    "plugins '{}' and '{}' require each other; drop one of the requirements",
                                    enabled_[k].id, enabled_[other].id));
      if (state[other] == 0) stack.emplace_back(other, 0);
    }
  }
  return order;
}

/// A plugin is skipped if a plugin that it requires was skipped.
Result<void> Finder::skip_what_lacks_a_requirement(const std::vector<size_t>& order,
                                                   std::vector<PluginRequest>& requests) const {
  for (size_t k : order) {
    auto& request = requests[k];
    auto descriptor = descriptors_.find(request.id);
    if (request.fault || descriptor == descriptors_.end()) continue;
    for (const auto& need : descriptor->second.requirements) {
      const auto& other = requests[provider_of(need)];
      if (!other.fault) continue;
      auto fault =
          at(need.where, error(FE_EINVALID, "FE-M12", "plugin '{}' requires '{}', which is skipped: {}",
                               request.id, need.id, other.fault->message()));
      if (request.on_error != OnError::skip) return fault;
      request.fault = std::move(fault);
      break;
    }
  }
  return {};
}

/// The names of the rules in a file, found by the keyword that begins each; the rest is not parsed.
std::vector<std::string> rules_in(const std::string& path) {
  std::vector<std::string> names;
  const auto text = read_text_file(path);
  if (!text) return names;
  std::istringstream lines(*text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string word, name, at;
    if (words >> word >> name >> at && word == "rule" && at == "at") names.push_back(std::move(name));
  }
  return names;
}

/// Collects the passes and rules of plugins that were found but are not enabled, as far as descriptors name
/// them.
void Finder::find_idle_names() {
  for (const auto& [id, where] : disabled_)
    if (std::ranges::find(enabled_, id, &EnabledPlugin::id) == enabled_.end())
      pipeline_.disabled.emplace(id, where);
  for (const auto& folder : pipeline_.search)
    for (const auto& file : descriptors_in(folder)) {
      auto descriptor = Descriptor::read(file);
      if (!descriptor || descriptors_.contains(descriptor->id)) continue;
      const auto& id = descriptor->id;
      for (const auto& pass : descriptor->passes) pipeline_.idle_passes.push_back({pass.name, id});
      for (const auto& path : descriptor->rules) {
        pipeline_.idle_passes.push_back({id + "/" + fs::path(path).filename().string(), id});
        for (auto& rule : rules_in(path)) pipeline_.idle_rules.push_back({std::move(rule), id});
      }
    }
}

Result<void> Finder::check_settings_of_others() const {
  std::set<std::string_view> ids;
  for (const auto& enabled : enabled_) ids.insert(enabled.id);
  // plugins of devices that this manifest does not name
  ids.insert(device_plugin_ids_.begin(), device_plugin_ids_.end());
  for (const auto& [id, settings] : settings_) {
    if (ids.contains(id)) continue;
    if (const auto place = disabled_.find(id); place != disabled_.end())
      return at(settings.where,
                error(FE_EINVALID, "FE-M05",
                      "[plugin.\"{}\"] is for a plugin that is disabled at {}; drop one of the two", id,
                      place->second));
    return at(settings.where,
              error(FE_EINVALID, "FE-M05",
                    "[plugin.\"{}\"] is for a plugin that is not enabled; add it to 'enable'{}", id,
                    did_you_mean(id, std::vector(ids.begin(), ids.end()))));
  }
  return {};
}

Result<Pipeline> Finder::run() {
  find_folders();
  for (const auto& path : request_.plugins) FE_CHECK(add_path(path));
  find_device_plugins();
  FE_CHECK(check_settings_of_others());
  std::vector<PluginRequest> requests;
  for (const auto& enabled : enabled_) {
    FE_TRY(auto request, request_for(enabled));
    requests.push_back(std::move(request));
  }
  FE_CHECK(enable_device_plugins(requests));
  FE_CHECK(check_provided());
  FE_TRY(auto order, load_order());
  FE_CHECK(skip_what_lacks_a_requirement(order, requests));
  if (!pipeline_.passes.empty() || !pipeline_.rules.empty()) find_idle_names();
  for (size_t k : order) pipeline_.plugins.push_back(std::move(requests[k]));
  for (auto& request : bare_) pipeline_.plugins.push_back(std::move(request));
  return std::move(pipeline_);
}

}  // namespace

Result<Pipeline> find_plugins(ManifestContent content, const PipelineRequest& request, const Lock* lock) {
  return Finder(std::move(content), request, lock).run();
}

}  // namespace ferrite::core::config
