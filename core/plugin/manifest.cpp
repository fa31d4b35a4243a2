// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/plugin/manifest.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>

#include "core/plugin/descriptor.h"
#include "core/plugin/toml_reader.h"
#include "core/support/suggest.h"

namespace ferrite::core::plugin {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 8> manifest_keys = {"schema", "extends", "enable", "disable",
                                                           "search", "plugin",  "pass",   "pipeline"};
constexpr std::array<std::string_view, 4> plugin_keys = {"library", "on_error", "isolation", "config"};
constexpr std::array<std::string_view, 3> pass_keys = {"enabled", "after", "before"};
constexpr std::array<std::string_view, 3> pipeline_keys = {"fuse", "device", "threads"};
constexpr size_t deepest_extends = 16;

std::vector<std::string_view> views(const std::vector<std::string>& names) {
  return {names.begin(), names.end()};
}

/// As it stands where there is no working directory.
/// Whether a value of a manifest is of a type that a descriptor names; an integer is also a number, and an empty list a list
/// of anything.
bool convert(graph::AttributeValue& value, std::string_view type) {
  if (type == "number" && std::holds_alternative<int64_t>(value))
    value = static_cast<double>(std::get<int64_t>(value));
  if (const auto* list = std::get_if<std::vector<int64_t>>(&value)) {
    if (type == "numbers") value = std::vector<double>(list->begin(), list->end());
    if (type == "strings" && list->empty()) value = std::vector<std::string>();
  }
  return (type == "integer" && std::holds_alternative<int64_t>(value)) ||
         (type == "number" && std::holds_alternative<double>(value)) ||
         (type == "boolean" && std::holds_alternative<bool>(value)) ||
         (type == "string" && std::holds_alternative<std::string>(value)) ||
         (type == "integers" && std::holds_alternative<std::vector<int64_t>>(value)) ||
         (type == "numbers" && std::holds_alternative<std::vector<double>>(value)) ||
         (type == "strings" && std::holds_alternative<std::vector<std::string>>(value));
}

std::string absolute(const std::string& path) {
  std::error_code failed;
  const auto whole = fs::absolute(path, failed);
  return (failed ? fs::path(path) : whole).lexically_normal().string();
}

struct ConfigPlace {
  std::string key, value;
};

/// What [plugin."id"] of all manifests together says.
struct PluginSettings {
  std::string where, library, library_where;
  std::optional<OnError> on_error;
  std::optional<Isolation> isolation;
  std::vector<graph::Attribute> config;
  std::map<std::string, ConfigPlace, std::less<>> config_places;
};

struct Enabled {
  std::string id, why;
};

/// Reads manifests, outermost last, into one list of what is enabled; resolve() then finds the files.
class Reader {
 public:
  explicit Reader(const PipelineRequest& request) : request_(request), files_(installed_files()) {}

  Result<void> read(const std::string& path, size_t depth);
  Result<void> read_text(std::string_view text, const std::string& path, size_t depth);
  Result<Pipeline> resolve();

 private:
  Result<void> read_plugins(const TomlTable& manifest, const std::string& folder);
  Result<void> read_passes(const TomlTable& manifest);
  Result<void> read_settings(const TomlTable& manifest);
  Result<void> read_config(const TomlTable& table, const std::string& prefix, size_t depth,
                           PluginSettings& settings);
  Result<void> check_config(PluginRequest& request) const;
  Result<void> add_path(const std::string& path);
  Result<void> add_descriptor(Descriptor descriptor, const std::string& why);
  Result<PluginRequest> find(const Enabled& enabled);
  Result<std::vector<size_t>> load_order() const;
  Result<void> skip_what_lacks_a_requirement(const std::vector<size_t>& order,
                                             std::vector<PluginRequest>& requests) const;
  void find_idle_passes();
  std::string nearest_plugin(std::string_view id) const;

  const PipelineRequest& request_;
  InstalledFiles files_;
  Pipeline pipeline_;
  std::vector<Enabled> enabled_;
  std::map<std::string, PluginSettings, std::less<>> settings_;
  std::map<std::string, Descriptor, std::less<>> given_;        // by --plugin
  std::vector<PluginRequest> bare_;                             // libraries without a descriptor
  std::map<std::string, Descriptor, std::less<>> descriptors_;  // of what is enabled
};

Result<void> Reader::read(const std::string& path, size_t depth) {
  FE_TRY(auto text, read_text_file(path));
  return read_text(text, path, depth);
}

Result<void> Reader::read_text(std::string_view text, const std::string& path, size_t depth) {
  FE_TRY(auto document, parse_toml(text, path));
  TomlTable manifest(document, path, "");
  FE_CHECK(manifest.check_schema());
  FE_CHECK(manifest.only(manifest_keys));
  const auto folder = fs::path(absolute(path)).parent_path().string();

  FE_TRY(auto extends, manifest.string("extends"));
  if (!extends) extends = absolute(path) == absolute(files_.default_manifest) ? "none" : "default";
  if (extends != "none") {
    auto base = extends == "default" ? files_.default_manifest
                                     : (fs::path(folder) / *extends).lexically_normal().string();
    if (depth >= deepest_extends)
      return at(
          manifest.place("extends"),
          error(FE_EINVALID, "FE-M15", "manifests extend each other {} deep; do they form a circle?", depth));
    if (auto done = read(base, depth + 1); !done) {
      if (done.error().code == "FE-M14" && done.error().where == base)
        return at(manifest.place("extends"),
                  Error{done.error().status,
                        done.error().code,
                        fmt::format("cannot extend {}: {}", base, done.error().text),
                        {}});
      return done;
    }
  }
  pipeline_.manifests.insert(pipeline_.manifests.begin(), path);

  std::vector<std::string> places;
  FE_TRY(auto disable, manifest.strings("disable", &places));
  for (size_t k = 0; k < disable.size(); ++k) {
    auto found =
        std::find_if(enabled_.begin(), enabled_.end(), [&](const Enabled& e) { return e.id == disable[k]; });
    if (found == enabled_.end()) {
      std::vector<std::string> ids;
      for (const auto& enabled : enabled_) ids.push_back(enabled.id);
      auto known = views(ids);
      return at(places[k], error(FE_EINVALID, "FE-M05", "'{}' is not enabled by what this manifest extends{}",
                                 disable[k], did_you_mean(disable[k], known)));
    }
    enabled_.erase(found);
  }
  places.clear();
  FE_TRY(auto enable, manifest.strings("enable", &places));
  for (size_t k = 0; k < enable.size(); ++k) {
    if (!valid_id(enable[k]))
      return at(places[k],
                error(FE_EINVALID, "FE-M03",
                      "'{}' is no plugin id; letters, digits, '_' and '-' joined by points", enable[k]));
    for (const auto& other : enabled_)
      if (other.id == enable[k])
        return at(places[k],
                  error(FE_EINVALID, "FE-M08", "'{}' is already enabled at {}", enable[k], other.why));
    enabled_.push_back({enable[k], places[k]});
  }
  places.clear();
  FE_TRY(auto search, manifest.strings("search", &places));
  std::vector<std::string> folders;
  for (size_t k = 0; k < search.size(); ++k) {
    auto searched = (fs::path(folder) / search[k]).lexically_normal().string();
    std::error_code failed;
    if (!fs::is_directory(searched, failed))
      return at(places[k], error(FE_EINVALID, "FE-M06", "there is no folder {}", searched));
    folders.push_back(searched);
  }
  pipeline_.search.insert(pipeline_.search.begin(), folders.begin(), folders.end());
  FE_CHECK(read_plugins(manifest, folder));
  FE_CHECK(read_passes(manifest));
  return read_settings(manifest);
}

Result<void> Reader::read_plugins(const TomlTable& manifest, const std::string& folder) {
  FE_TRY(auto plugins, manifest.table("plugin"));
  if (!plugins) return {};
  for (const auto& [key, node] : plugins->raw()) {
    std::string id(key.str());
    FE_TRY(auto table, plugins->table(id));
    FE_CHECK(table->only(plugin_keys));
    auto& settings = settings_[id];
    settings.where = plugins->place(id);
    FE_TRY(auto library, table->string("library"));
    if (library) {
      settings.library_where = table->place("library");
      settings.library = *library;
      if (!fs::path(*library).is_absolute()) {
        auto inside = path_within(folder, *library);
        if (!inside) return at(settings.library_where, std::move(inside.error()));
        settings.library = *inside;
      }
    }
    FE_TRY(auto on_error, table->string("on_error"));
    if (on_error) {
      if (*on_error != "fail" && *on_error != "skip")
        return at(table->place("on_error"),
                  error(FE_EINVALID, "FE-M03", "on_error is \"fail\" or \"skip\", not \"{}\"", *on_error));
      settings.on_error = *on_error == "skip" ? OnError::skip : OnError::fail;
    }
    FE_TRY(auto isolation, table->string("isolation"));
    if (isolation) {
      if (*isolation != "in-process" && *isolation != "process")
        return at(table->place("isolation"),
                  error(FE_EINVALID, "FE-M03", "isolation is \"in-process\" or \"process\", not \"{}\"",
                        *isolation));
      settings.isolation = *isolation == "process" ? Isolation::process : Isolation::in_process;
    }
    FE_TRY(auto config, table->table("config"));
    if (config) FE_CHECK(read_config(*config, "", 0, settings));
  }
  return {};
}

Result<void> Reader::read_config(const TomlTable& table, const std::string& prefix, size_t depth,
                                 PluginSettings& settings) {
  auto& config = settings.config;
  auto put = [&](std::string name, graph::AttributeValue value) {
    auto found = std::find_if(config.begin(), config.end(), [&](const auto& a) { return a.name == name; });
    if (found == config.end()) found = config.insert(config.end(), {std::move(name), {}});
    found->value = std::move(value);
  };
  for (const auto& [key, node] : table.raw()) {
    const std::string name = prefix + std::string(key.str());
    settings.config_places[name] = {table.key_place(key), table.place(node)};
    if (const auto* integer = node.as_integer()) {
      put(name, integer->get());
    } else if (const auto* number = node.as_floating_point()) {
      put(name, number->get());
    } else if (const auto* truth = node.as_boolean()) {
      put(name, truth->get());
    } else if (node.is_string()) {
      FE_TRY(auto text, table.string(key.str()));
      put(name, std::move(*text));
    } else if (node.is_table() && depth < 16) {
      FE_TRY(auto inner, table.table(key.str()));
      FE_CHECK(read_config(*inner, name + ".", depth + 1, settings));
    } else if (const auto* list = node.as_array();
               list && !list->empty() && list->is_homogeneous(toml::node_type::string)) {
      FE_TRY(auto texts, table.strings(key.str()));
      put(name, std::move(texts));
    } else if (list && list->is_homogeneous(toml::node_type::floating_point) && !list->empty()) {
      std::vector<double> numbers;
      for (const auto& element : *list) numbers.push_back(*element.value<double>());
      put(name, std::move(numbers));
    } else if (list && (list->empty() || list->is_homogeneous(toml::node_type::integer))) {
      std::vector<int64_t> integers;
      for (const auto& element : *list) integers.push_back(*element.value<int64_t>());
      put(name, std::move(integers));
    } else {
      return at(table.place(node), error(FE_EINVALID, "FE-M03",
                                         "config '{}' must be an integer, a number, a truth value, a string, "
                                         "a list of one of integers, numbers or strings, or a table of these",
                                         name));
    }
  }
  return {};
}

Result<void> Reader::read_passes(const TomlTable& manifest) {
  FE_TRY(auto passes, manifest.table("pass"));
  if (!passes) return {};
  for (const auto& [key, node] : passes->raw()) {
    PassOverride change;
    change.name = key.str();
    FE_TRY(auto table, passes->table(key.str()));
    FE_CHECK(table->only(pass_keys));
    change.where = passes->place(key.str());
    FE_TRY(change.enabled, table->boolean("enabled"));
    FE_TRY(change.after, table->strings("after", &change.after_places));
    FE_TRY(change.before, table->strings("before", &change.before_places));
    pipeline_.passes.push_back(std::move(change));
  }
  return {};
}

Result<void> Reader::read_settings(const TomlTable& manifest) {
  FE_TRY(auto settings, manifest.table("pipeline"));
  if (!settings) return {};
  FE_CHECK(settings->only(pipeline_keys));
  FE_TRY(auto fuse, settings->boolean("fuse"));
  if (fuse) pipeline_.fuse = fuse;
  FE_TRY(auto device, settings->string("device"));
  if (device) pipeline_.device = device;
  FE_TRY(auto threads, settings->integer("threads"));
  if (threads && (*threads < 0 || *threads > 4096))
    return at(settings->place("threads"),
              error(FE_EINVALID, "FE-M03", "threads is 0 (the machine's) to 4096, not {}", *threads));
  if (threads) pipeline_.threads = threads;
  return {};
}

Result<void> Reader::add_descriptor(Descriptor descriptor, const std::string& why) {
  for (const auto& enabled : enabled_)
    if (enabled.id == descriptor.id && given_.count(descriptor.id))
      return at(why, error(FE_EINVALID, "FE-M08", "plugin '{}' is given twice: {} and {}", descriptor.id,
                           given_.at(descriptor.id).path, descriptor.path));
  bool listed =
      std::any_of(enabled_.begin(), enabled_.end(), [&](const Enabled& e) { return e.id == descriptor.id; });
  if (!listed) enabled_.push_back({descriptor.id, why});
  given_.emplace(descriptor.id, std::move(descriptor));
  return {};
}

/// One --plugin: a library, a descriptor or a folder of descriptors.
Result<void> Reader::add_path(const std::string& given) {
  const std::string path = absolute(given), why = given.empty() ? "--plugin ''" : "--plugin " + given;
  std::error_code failed;
  if (!given.empty() && fs::is_directory(path, failed)) {
    std::set<std::string> found;
    for (const auto& entry : fs::directory_iterator(path, failed))
      if (entry.path().string().ends_with(descriptor_suffix)) found.insert(entry.path().string());
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
  // A library: by the descriptor beside it that names it, else bare.
  for (const auto& entry : fs::directory_iterator(fs::path(path).parent_path(), failed)) {
    if (!entry.path().string().ends_with(descriptor_suffix)) continue;
    auto descriptor = Descriptor::read(entry.path().string());
    if (descriptor && descriptor->library == path) return add_descriptor(std::move(*descriptor), why);
  }
  PluginRequest request;
  request.library = path;
  request.why = why;
  bare_.push_back(std::move(request));
  return {};
}

std::string Reader::nearest_plugin(std::string_view id) const {
  std::vector<std::string> ids;
  for (const auto& [name, descriptor] : given_) ids.push_back(name);
  for (const auto& folder : pipeline_.search) {
    std::error_code failed;
    for (const auto& entry : fs::directory_iterator(folder, failed)) {
      auto name = entry.path().filename().string();
      if (name.ends_with(descriptor_suffix))
        ids.push_back(name.substr(0, name.size() - descriptor_suffix.size()));
    }
  }
  std::sort(ids.begin(), ids.end());
  auto known = views(ids);
  return did_you_mean(id, known);
}

Result<PluginRequest> Reader::find(const Enabled& enabled) {
  PluginRequest request;
  request.id = enabled.id;
  request.why = enabled.why;
  std::optional<Descriptor> descriptor;
  std::error_code failed;
  auto settings = settings_.find(enabled.id);
  if (settings != settings_.end()) {
    request.on_error = settings->second.on_error.value_or(OnError::fail);
    request.isolation = settings->second.isolation.value_or(Isolation::in_process);
    request.config = settings->second.config;
    request.library = settings->second.library;
    if (!request.library.empty() && !fs::is_regular_file(request.library, failed))
      return at(settings->second.library_where,
                error(FE_EINVALID, "FE-M06", "there is no library {}; build it, or correct the path",
                      request.library));
  }
  if (auto given = given_.find(enabled.id); given != given_.end()) {
    descriptor = given->second;
  } else {
    std::vector<std::string> folders = pipeline_.search;
    if (!request.library.empty()) folders = {fs::path(request.library).parent_path().string()};
    for (const auto& folder : folders) {
      auto path = (fs::path(folder) / (enabled.id + std::string(descriptor_suffix))).string();
      if (!fs::exists(path, failed)) continue;
      FE_TRY(descriptor, Descriptor::read(path));
      if (descriptor->id != enabled.id)
        return at(path, error(FE_EINVALID, "FE-M05", "the descriptor says id = \"{}\", its name says \"{}\"",
                              descriptor->id, enabled.id));
      break;
    }
  }
  if (!descriptor) {
    if (!request.library.empty()) return request;
    return at(enabled.why, error(FE_EINVALID, "FE-M05", "there is no plugin '{}' ({}{}){}", enabled.id,
                                 enabled.id + std::string(descriptor_suffix),
                                 pipeline_.search.empty()
                                     ? std::string(" and no folder to search it in")
                                     : fmt::format(" in none of {}", fmt::join(pipeline_.search, ", ")),
                                 nearest_plugin(enabled.id)));
  }
  if (request.library.empty()) request.library = descriptor->library;
  if (!request.library.empty() && !fs::is_regular_file(request.library, failed))
    return at(descriptor->path,
              error(FE_EINVALID, "FE-M06", "the library {} of plugin '{}' is missing; build or reinstall it",
                    request.library, enabled.id));
  for (const auto& path : descriptor->rules) {
    auto text = read_text_file(path);
    if (!text)
      return at(descriptor->path, error(FE_EINVALID, "FE-M06", "the rule file {} of plugin '{}': {}", path,
                                        enabled.id, text.error().text));
    request.rule_files.emplace_back(path, std::move(*text));
  }
  request.passes = descriptor->passes;
  descriptors_.emplace(enabled.id, std::move(*descriptor));
  return request;
}

/// The settings are those that the descriptor declares. What has no descriptor declares nothing and takes anything.
Result<void> Reader::check_config(PluginRequest& request) const {
  auto descriptor = descriptors_.find(request.id);
  auto settings = settings_.find(request.id);
  if (descriptor == descriptors_.end() || settings == settings_.end()) return {};
  const auto& declared = descriptor->second.config;
  std::vector<std::string_view> known;
  for (const auto& [name, type] : declared) known.push_back(name);
  for (auto& [name, value] : request.config) {
    const auto& place = settings->second.config_places.at(name);
    auto found = declared.find(name);
    if (found == declared.end())
      return at(place.key, error(FE_EINVALID, "FE-M02", "plugin '{}' has no setting '{}'{}; {}", request.id,
                                 name, did_you_mean(name, known),
                                 known.empty() ? std::string("it has none")
                                               : fmt::format("it has {}", fmt::join(known, ", "))));
    if (!convert(value, found->second))
      return at(place.value, error(FE_EINVALID, "FE-M03", "the setting '{}' of plugin '{}' is of type {}",
                                   name, request.id, found->second));
  }
  return {};
}

/// What a plugin requires is loaded before it; otherwise the order of enabling stays.
Result<std::vector<size_t>> Reader::load_order() const {
  std::vector<size_t> order;
  std::vector<int> state(enabled_.size(), 0);  // 1: being placed, 2: placed
  // An explicit stack: a chain of requirements is as long as its author likes.
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
      size_t other = 0;
      while (other < enabled_.size() && enabled_[other].id != need.id) ++other;
      if (other == enabled_.size())
        return at(need.where, error(FE_EINVALID, "FE-M12",
                                    "plugin '{}' requires '{}', which is not enabled; add it to 'enable'",
                                    enabled_[k].id, need.id));
      if (auto found = descriptors_.find(need.id);
          found != descriptors_.end() && found->second.version < need.least)
        return at(need.where,
                  error(FE_EINVALID, "FE-M12", "plugin '{}' requires '{}' >= {}.{}.{}, {} is {}.{}.{}",
                        enabled_[k].id, need.id, need.least.major, need.least.minor, need.least.patch,
                        found->second.path, found->second.version.major, found->second.version.minor,
                        found->second.version.patch));
      if (state[other] == 1)
        return at(need.where, error(FE_EINVALID, "FE-M12", "plugins '{}' and '{}' require each other",
                                    enabled_[k].id, need.id));
      if (state[other] == 0) stack.emplace_back(other, 0);
    }
  }
  return order;
}

/// A plugin cannot do without what it requires, even where that may be skipped.
Result<void> Reader::skip_what_lacks_a_requirement(const std::vector<size_t>& order,
                                                   std::vector<PluginRequest>& requests) const {
  for (size_t k : order) {
    auto& request = requests[k];
    auto descriptor = descriptors_.find(request.id);
    if (request.fault || descriptor == descriptors_.end()) continue;
    for (const auto& need : descriptor->second.requirements) {
      auto other = std::find_if(requests.begin(), requests.end(),
                                [&](const PluginRequest& r) { return r.id == need.id; });
      if (other == requests.end() || !other->fault) continue;
      auto fault =
          at(need.where, error(FE_EINVALID, "FE-M12", "plugin '{}' requires '{}', which is skipped: {}",
                               request.id, need.id, other->fault->message()));
      if (request.on_error != OnError::skip) return fault;
      request.fault = std::move(fault);
      break;
    }
  }
  return {};
}

/// The passes that descriptors list whose plugins are found and not enabled.
void Reader::find_idle_passes() {
  for (const auto& folder : pipeline_.search) {
    std::error_code failed;
    for (const auto& entry : fs::directory_iterator(folder, failed)) {
      if (!entry.path().string().ends_with(descriptor_suffix)) continue;
      auto descriptor = Descriptor::read(entry.path().string());
      if (!descriptor || descriptors_.contains(descriptor->id)) continue;
      for (const auto& [name, where] : descriptor->passes) pipeline_.idle_passes.push_back(name);
    }
  }
}

Result<Pipeline> Reader::resolve() {
  std::vector<std::string> folders;
  if (const char* path = secure_getenv("FERRITE_PLUGIN_PATH")) {
    for (std::string_view rest = path; !rest.empty();) {
      auto folder = rest.substr(0, rest.find(':'));
      rest.remove_prefix(std::min(rest.size(), folder.size() + 1));
      if (!folder.empty()) folders.push_back(absolute(std::string(folder)));
    }
  }
  pipeline_.search.insert(pipeline_.search.begin(), folders.begin(), folders.end());
  if (!files_.plugin_folder.empty()) pipeline_.search.push_back(files_.plugin_folder);
  for (const auto& path : request_.plugins) FE_CHECK(add_path(path));

  std::vector<std::string> ids;
  for (const auto& enabled : enabled_) ids.push_back(enabled.id);
  auto known = views(ids);
  for (const auto& [id, settings] : settings_)
    if (std::find(ids.begin(), ids.end(), id) == ids.end())
      return at(settings.where,
                error(FE_EINVALID, "FE-M05", "[plugin.\"{}\"] is for a plugin that is not enabled{}", id,
                      did_you_mean(id, known)));
  std::vector<PluginRequest> requests;
  for (const auto& enabled : enabled_) {
    auto request = find(enabled);
    if (!request) {
      auto settings = settings_.find(enabled.id);
      if (settings == settings_.end() || settings->second.on_error != OnError::skip)
        return std::move(request.error());
      PluginRequest skipped;
      skipped.id = enabled.id;
      skipped.why = enabled.why;
      skipped.on_error = OnError::skip;
      skipped.fault = std::move(request.error());
      requests.push_back(std::move(skipped));
      continue;
    }
    FE_CHECK(check_config(*request));
    requests.push_back(std::move(*request));
  }
  FE_TRY(auto order, load_order());
  FE_CHECK(skip_what_lacks_a_requirement(order, requests));
  if (!pipeline_.passes.empty()) find_idle_passes();
  for (size_t k : order) pipeline_.plugins.push_back(std::move(requests[k]));
  for (auto& request : bare_) pipeline_.plugins.push_back(std::move(request));
  return std::move(pipeline_);
}

}  // namespace

Result<Pipeline> read_pipeline(const PipelineRequest& request) {
  Reader reader(request);
  FE_CHECK(reader.read(request.manifest.empty() ? installed_files().default_manifest : request.manifest, 0));
  return reader.resolve();
}

Result<Pipeline> read_pipeline_text(std::string_view text, const std::string& path,
                                    const PipelineRequest& request) {
  Reader reader(request);
  FE_CHECK(reader.read_text(text, path, 0));
  return reader.resolve();
}

}  // namespace ferrite::core::plugin
