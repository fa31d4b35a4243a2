// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/plugin/descriptor.h"

#include <array>
#include <charconv>
#include <filesystem>

#include "core/plugin/toml_reader.h"
#include "core/support/suggest.h"
#include "ferrite/abi/base.h"

namespace ferrite::core::plugin {
namespace {

constexpr std::array<std::string_view, 10> descriptor_keys = {
    "schema", "id", "version", "library", "rules", "abi", "platform", "requires", "passes", "config"};
constexpr std::array<std::string_view, 7> config_types = {"integer",  "number",  "boolean", "string",
                                                          "integers", "numbers", "strings"};
constexpr size_t deepest_config = 16;

#if defined(__x86_64__)
constexpr std::string_view this_platform = "linux-x86_64";
#elif defined(__aarch64__)
constexpr std::string_view this_platform = "linux-aarch64";
#else
constexpr std::string_view this_platform = "linux-other";
#endif

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

Result<Requirement> parse_requirement(std::string_view text, std::string where) {
  Requirement result;
  result.where = std::move(where);
  auto operation = text.find(">=");
  result.id = trimmed(text.substr(0, operation));
  if (!valid_id(result.id))
    return at(result.where,
              error(FE_EINVALID, "FE-M03",
                    "'{}' is no requirement; write \"plugin.id\" or \"plugin.id >= 1.2.0\"", text));
  if (operation == std::string_view::npos) return result;
  auto least = Version::parse(trimmed(text.substr(operation + 2)));
  if (!least) return at(result.where, std::move(least.error()));
  result.least = *least;
  return result;
}

Result<void> read_config(const TomlTable& table, const std::string& prefix, size_t depth,
                         std::map<std::string, std::string, std::less<>>& config) {
  for (const auto& [key, node] : table.raw()) {
    const std::string name = prefix + std::string(key.str());
    if (node.is_table() && depth < deepest_config) {
      FE_TRY(auto inner, table.table(key.str()));
      FE_CHECK(read_config(*inner, name + ".", depth + 1, config));
      continue;
    }
    const auto* type = node.as_string();
    if (!type || std::find(config_types.begin(), config_types.end(), type->get()) == config_types.end())
      return at(table.place(node),
                error(FE_EINVALID, "FE-M03", "the type of '{}' is not one of {}{}", name,
                      fmt::join(config_types, ", "), type ? did_you_mean(type->get(), config_types) : ""));
    config[name] = type->get();
  }
  return {};
}

}  // namespace

Result<Version> Version::parse(std::string_view text) {
  Version result;
  uint32_t* const parts[] = {&result.major, &result.minor, &result.patch};
  const char *next = text.data(), *end = text.data() + text.size();
  for (int k = 0; k < 3; ++k) {
    auto [after, fault] = std::from_chars(next, end, *parts[k]);
    bool more = k < 2 && after != end && *after == '.';
    bool done = after == end || *after == '-';
    if (fault != std::errc() || !(more || (done && k > 0)))
      return error(FE_EINVALID, "FE-M13", "'{}' is no version; write major.minor.patch, as in 1.2.0", text);
    if (done) break;
    next = after + 1;
  }
  return result;
}

bool valid_id(std::string_view id) {
  if (id.empty() || id.size() > 128 || id.front() == '.' || id.back() == '.') return false;
  for (size_t k = 0; k < id.size(); ++k) {
    char c = id[k];
    bool word =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
    if (!word && (c != '.' || id[k - 1] == '.')) return false;
  }
  return true;
}

Result<std::string> path_within(const std::string& folder, const std::string& relative) {
  auto path = std::filesystem::path(relative).lexically_normal();
  if (relative.empty() || path.is_absolute() || *path.begin() == ".." || !path.has_filename())
    return error(FE_EINVALID, "FE-M07",
                 "the path '{}' leaves the folder of this file; only files below it may be named", relative);
  return (std::filesystem::path(folder) / path).lexically_normal().string();
}

Result<Descriptor> Descriptor::read(const std::string& path) {
  FE_TRY(auto text, read_text_file(path));
  return parse(text, path);
}

Result<Descriptor> Descriptor::parse(std::string_view text, const std::string& path) {
  FE_TRY(auto document, parse_toml(text, path));
  TomlTable table(document, path, "");
  FE_CHECK(table.check_schema());
  FE_CHECK(table.only(descriptor_keys));

  Descriptor result;
  result.path = path;
  FE_TRY(result.id, table.required_string("id"));
  if (!valid_id(result.id))
    return at(table.place("id"),
              error(FE_EINVALID, "FE-M03", "'{}' is no id; letters, digits, '_' and '-' joined by points",
                    result.id));
  FE_TRY(auto version, table.required_string("version"));
  auto parsed = Version::parse(version);
  if (!parsed) return at(table.place("version"), std::move(parsed.error()));
  result.version = *parsed;

  auto folder = std::filesystem::absolute(path).parent_path().string();
  FE_TRY(auto library, table.string("library"));
  if (library) {
    auto inside = path_within(folder, *library);
    if (!inside) return at(table.place("library"), std::move(inside.error()));
    result.library = *inside;
    FE_TRY(auto abi, table.required_string("abi"));
    auto expected = fmt::format("{}.{}", FE_ABI_MAJOR, FE_ABI_MINOR);
    if (abi != expected)
      return at(table.place("abi"),
                error(FE_EINVALID, "FE-M16",
                      "the library is for ABI {}, this is {}; get a build for this version", abi, expected));
  }
  std::vector<std::string> places;
  FE_TRY(auto rules, table.strings("rules", &places));
  for (size_t k = 0; k < rules.size(); ++k) {
    auto inside = path_within(folder, rules[k]);
    if (!inside) return at(places[k], std::move(inside.error()));
    result.rules.push_back(*inside);
  }
  if (result.library.empty() && result.rules.empty())
    return at(path, error(FE_EINVALID, "FE-M03", "the descriptor names neither a library nor rules"));

  FE_TRY(auto platforms, table.string_or_strings("platform"));
  if (!platforms.empty() && std::find(platforms.begin(), platforms.end(), this_platform) == platforms.end())
    return at(table.place("platform"), error(FE_EINVALID, "FE-M16", "the plugin is for {}, this is {}",
                                             fmt::join(platforms, ", "), this_platform));
  places.clear();
  FE_TRY(auto requirements, table.strings("requires", &places));
  for (size_t k = 0; k < requirements.size(); ++k) {
    FE_TRY(auto requirement, parse_requirement(requirements[k], places[k]));
    result.requirements.push_back(std::move(requirement));
  }
  places.clear();
  FE_TRY(auto passes, table.strings("passes", &places));
  for (size_t k = 0; k < passes.size(); ++k) result.passes.emplace_back(std::move(passes[k]), places[k]);
  FE_TRY(auto config, table.table("config"));
  if (config) FE_CHECK(read_config(*config, "", 0, result.config));
  return result;
}

}  // namespace ferrite::core::plugin
