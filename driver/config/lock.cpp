// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "driver/config/lock.h"

#include <algorithm>
#include <filesystem>

#include "core/support/digest.h"
#include "core/support/toml/toml_reader.h"
#include "driver/config/manifest_read.h"
#include "driver/config/schema.h"
#include "runtime/plugin/plugin_library.h"

namespace ferrite::core::config {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view built_in = "built-in:";

bool is_hash(std::string_view text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

/// Reads a file entry of a checked table: its path under `path_key`, its hash under `hash_key`.
Result<LockedFile> read_file(const TomlTable& table, std::string_view path_key, std::string_view hash_key) {
  LockedFile file{table.string(path_key).value_or(""), table.string(hash_key).value_or("")};
  if (table.has(path_key) != table.has(hash_key))
    return at(
        table.place(table.has(path_key) ? path_key : hash_key),
        error(FE_EINVALID, "FE-M03", "'{}' and '{}' stand together or not at all; run `ferrite plugin lock`",
              path_key, hash_key));
  if (table.has(hash_key) && !is_hash(file.sha256))
    return at(table.place(hash_key),
              error(FE_EINVALID, "FE-M03",
                    "'{}' must be 64 hexadecimal digits, in lower case; run `ferrite plugin "
                    "lock`",
                    hash_key));
  return file;
}

/// Whether the two entries name the same files, so that no plugin could match one but not the other.
bool same_files(const LockedPlugin& a, const LockedPlugin& b) {
  const auto same_path = [](const LockedFile& one, const LockedFile& other) {
    return one.path == other.path;
  };
  return a.id == b.id && same_path(a.library, b.library) && same_path(a.descriptor, b.descriptor) &&
         std::equal(a.rules.begin(), a.rules.end(), b.rules.begin(), b.rules.end(), same_path);
}

Error changed(std::string where, std::string_view what, std::string_view path, std::string_view hash,
              std::string_view locked) {
  return at(std::move(where),
            error(FE_EINVALID, "FE-M23",
                  "the SHA-256 of the {} {} is {}, the lock says {}; restore the file, or run "
                  "`ferrite plugin lock` if the change is yours",
                  what, path, hash, locked));
}

}  // namespace

std::string Lock::path_for(const std::string& manifest) {
  return fs::path(absolute_path(manifest)).replace_extension(".lock").string();
}

Result<Lock> Lock::read(const std::string& path) {
  FE_TRY(auto text, read_text_file(path));
  return parse(text, path);
}

Result<Lock> Lock::parse(std::string_view text, const std::string& path) {
  FE_TRY(auto document, parse_toml(text, path));
  TomlTable table(document, path, "");
  FE_CHECK(table.check(lock_keys()));
  Lock lock(path);
  for (const auto& entry : table.table_list("plugin")) {
    auto& plugin = lock.plugins_.emplace_back();
    plugin.id = *entry.string("id");
    plugin.version = entry.string("version").value_or("");
    plugin.where = entry.place("id");
    FE_TRY(plugin.library, read_file(entry, "library", "library_sha256"));
    FE_TRY(plugin.descriptor, read_file(entry, "descriptor", "descriptor_sha256"));
    for (const auto& rule : entry.table_list("rules")) {
      FE_TRY(auto file, read_file(rule, "path", "sha256"));
      plugin.rules.push_back(std::move(file));
    }
    for (size_t k = 0; k + 1 < lock.plugins_.size(); ++k)
      if (same_files(lock.plugins_[k], plugin))
        return at(plugin.where, error(FE_EINVALID, "FE-M08",
                                      "plugin '{}' with these files is locked twice, at {} too; run `ferrite "
                                      "plugin lock`",
                                      plugin.id, lock.plugins_[k].where));
  }
  return lock;
}

/// The form of a path in a lock: independent of the machine where the file is in the manifest's folder or in
/// Ferrite's own.
std::string Lock::spelled(const std::string& path) const {
  const auto below = [&](const std::string& folder) -> std::string {
    const auto relative = fs::path(absolute_path(path)).lexically_relative(folder);
    return relative.empty() || *relative.begin() == ".." || relative == "." ? "" : relative.generic_string();
  };
  if (const auto folder = installed_files().plugin_folder; !folder.empty())
    if (const auto relative = below(folder); !relative.empty()) return std::string(built_in) + relative;
  const auto relative = below(fs::path(path_).parent_path().string());
  return relative.empty() ? absolute_path(path) : relative;
}

Result<void> Lock::add(const PluginRequest& request) {
  LockedPlugin plugin;
  plugin.id = request.id;
  plugin.version = request.version;
  if (!request.library.empty()) {
    FE_TRY(auto hash, hash_library(request.library));
    plugin.library = {spelled(request.library), std::move(hash)};
  }
  if (!request.descriptor.empty()) {
    FE_TRY(auto text, read_text_file(request.descriptor));
    plugin.descriptor = {spelled(request.descriptor), sha256(text)};
  }
  for (const auto& [path, text] : request.rule_files) plugin.rules.push_back({spelled(path), sha256(text)});
  const auto same = [&](const LockedPlugin& other) {
    return other.id == plugin.id && other.library == plugin.library &&
           other.descriptor == plugin.descriptor && other.rules == plugin.rules;
  };
  if (std::none_of(plugins_.begin(), plugins_.end(), same)) plugins_.push_back(std::move(plugin));
  return {};
}

Result<Lock> Lock::make(const PipelineRequest& request) {
  Lock lock(path_for(request.manifest));
  PipelineRequest one = request;
  one.use_lock = false;
  one.profile.clear();
  FE_TRY(const auto plain, read_pipeline(one));
  std::vector<Pipeline> pipelines{plain};
  for (const auto& profile : plain.profiles) {
    one.profile = profile;
    FE_TRY(auto pipeline, read_pipeline(one));
    pipelines.push_back(std::move(pipeline));
  }
  for (const auto& pipeline : pipelines)
    for (const auto& plugin : pipeline.plugins)
      if (!plugin.fault && !plugin.given) FE_CHECK(lock.add(plugin));
  std::stable_sort(lock.plugins_.begin(), lock.plugins_.end(),
                   [](const LockedPlugin& a, const LockedPlugin& b) { return a.id < b.id; });
  return lock;
}

std::string Lock::text() const {
  std::string text = "# Written by `ferrite plugin lock`.\nschema = 0\n";
  for (const auto& plugin : plugins_) {
    text += fmt::format("\n[[plugin]]\nid = {}\n", toml_string(plugin.id));
    if (!plugin.version.empty()) text += fmt::format("version = {}\n", toml_string(plugin.version));
    for (const auto& [key, file] :
         {std::pair{"library", &plugin.library}, std::pair{"descriptor", &plugin.descriptor}})
      if (!file->path.empty())
        text += fmt::format("{0} = {1}\n{0}_sha256 = {2}\n", key, toml_string(file->path),
                            toml_string(file->sha256));
    for (const auto& rule : plugin.rules)
      text += fmt::format("[[plugin.rules]]\npath = {}\nsha256 = {}\n", toml_string(rule.path),
                          toml_string(rule.sha256));
  }
  return text;
}

Result<void> Lock::check(PluginRequest& request, std::string_view descriptor) const {
  const std::string library = request.library.empty() ? "" : spelled(request.library);
  const std::string description = request.descriptor.empty() ? "" : spelled(request.descriptor);
  std::vector<std::string> rules;
  for (const auto& [path, text] : request.rule_files) rules.push_back(spelled(path));
  const LockedPlugin* same_id = nullptr;
  for (const auto& plugin : plugins_) {
    if (plugin.id != request.id) continue;
    same_id = &plugin;
    if (plugin.library.path != library || plugin.descriptor.path != description ||
        !std::equal(rules.begin(), rules.end(), plugin.rules.begin(), plugin.rules.end(),
                    [](const std::string& path, const LockedFile& file) { return path == file.path; }))
      continue;
    if (!description.empty())
      if (auto hash = sha256(descriptor); hash != plugin.descriptor.sha256)
        return changed(plugin.where, "descriptor", request.descriptor, hash, plugin.descriptor.sha256);
    for (size_t k = 0; k < rules.size(); ++k)
      if (auto hash = sha256(request.rule_files[k].second); hash != plugin.rules[k].sha256)
        return changed(plugin.where, "rule file", request.rule_files[k].first, hash, plugin.rules[k].sha256);
    request.library_sha256 = plugin.library.sha256;
    return {};
  }
  if (same_id)
    return at(same_id->where,
              error(FE_EINVALID, "FE-M24",
                    "plugin '{}' has other files than the lock says: {}; run `ferrite plugin lock` if "
                    "the change is yours",
                    request.id, library.empty() ? description : library));
  return at(path_ + ":1:1", error(FE_EINVALID, "FE-M24",
                                  "plugin '{}' is enabled at {} and not locked; run `ferrite plugin lock`",
                                  request.id, request.why));
}

}  // namespace ferrite::core::config
