// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "driver/config/descriptor.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>

#include "core/plugin/import_ops.h"
#include "core/support/split.h"
#include "core/support/suggest.h"
#include "core/support/toml/toml_reader.h"
#include "driver/config/schema.h"
#include "ferrite/abi/base.h"

namespace ferrite::core::config {
namespace {

#if defined(__x86_64__)
constexpr std::string_view this_platform = "linux-x86_64";
#elif defined(__aarch64__)
constexpr std::string_view this_platform = "linux-aarch64";
#else
constexpr std::string_view this_platform = "linux-other";
#endif

// The platforms for which Ferrite, and so a program that could load the library, exists.
constexpr std::string_view platforms_known[] = {"linux-x86_64", "linux-aarch64"};

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

/// Whether a version meets one condition on the ABI, ">= 0.1"; a version alone means that very version.
Result<bool> holds(std::string_view condition, Version version) {
  condition = trimmed(condition);
  const std::string_view all = condition;
  std::string_view operation = "==";
  for (std::string_view known : {">=", "<=", "==", ">", "<"})
    if (condition.starts_with(known)) {
      operation = known;
      condition.remove_prefix(known.size());
      break;
    }
  auto bound = Version::parse(trimmed(condition));
  if (!bound)
    return error(
        FE_EINVALID, "FE-M13",
        "'{}' is no condition on the ABI; write one version, as in 0.1, or a range, as in >= 0.1, < 0.3",
        all);
  if (operation == ">=") return version >= *bound;
  if (operation == "<=") return version <= *bound;
  if (operation == ">") return version > *bound;
  if (operation == "<") return version < *bound;
  return version == *bound;
}

/// FE-M16 where this program's ABI is not in the range.
Result<void> check_abi(std::string_view range) {
  constexpr Version ours{FE_ABI_MAJOR, FE_ABI_MINOR, 0};
  for (const auto part : split(range, ',')) {
    FE_TRY(const bool within, holds(part, ours));
    if (!within)
      return error(FE_EINVALID, "FE-M16",
                   "the library is for ABI {}, this is {}.{}; get a build for this version", range,
                   FE_ABI_MAJOR, FE_ABI_MINOR);
  }
  return {};
}

Error given_twice(std::string_view what, std::string_view where) {
  return error(FE_EINVALID, "FE-M08", "'{}' is already given at {}; drop one of the two", what, where);
}

Result<std::vector<DescribedPass>> read_passes(const TomlTable& table) {
  std::vector<DescribedPass> passes;
  if (auto named = table.table("passes")) {
    for (const auto& [name, said] : table.tables("passes")) {
      auto& pass = passes.emplace_back();
      pass.name = name;
      pass.where = named->place(name);
      pass.phase = said.string("phase").value_or("");
      for (auto [key, list] : {std::pair{"after", &pass.after}, std::pair{"before", &pass.before}})
        if (said.has(key)) *list = said.strings(key);
      for (auto key : {"phase", "after", "before"})
        if (said.has(key)) pass.places[key] = said.place(key);
      pass.limits = read_limits(said);
    }
    return passes;
  }
  std::vector<std::string> places;
  const auto names = table.strings("passes", &places);
  for (size_t k = 0; k < names.size(); ++k) {
    for (const auto& other : passes)
      if (other.name == names[k]) return at(places[k], given_twice(names[k], other.where));
    auto& pass = passes.emplace_back();
    pass.name = names[k];
    pass.where = places[k];
  }
  return passes;
}

/// "onnx:com.acme::FusedRope", optionally followed by " = acme.rope".
Result<Alias> read_alias(std::string_view text, std::string where) {
  Alias alias;
  alias.where = std::move(where);
  const auto equals = text.find('=');
  alias.source = trimmed(text.substr(0, equals));
  if (equals != std::string_view::npos) alias.op = trimmed(text.substr(equals + 1));
  if (!valid_source(alias.source) || (equals != std::string_view::npos && !valid_id(alias.op)))
    return at(
        alias.where,
        error(FE_EINVALID, "FE-M03",
              "'{}' is no alias; write the format, ':' and the model's op, as in {}, and where the plugin "
              "defines several ops '=' and the one meant",
              text, source_example));
  return alias;
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
  if (relative.empty())
    return error(FE_EINVALID, "FE-M03", "the path is empty; name a file below the folder of this one");
  auto path = std::filesystem::path(relative).lexically_normal();
  if (path.is_absolute() || *path.begin() == ".." || !path.has_filename())
    return error(FE_EINVALID, "FE-M07",
                 "the path '{}' leaves the folder of this file; only files below it may be named", relative);
  return (std::filesystem::path(folder) / path).lexically_normal().string();
}

Result<Descriptor> Descriptor::read(const std::string& path) {
  FE_TRY(auto text, read_text_file(path));
  return parse(text, path);
}

PassLimits read_limits(const TomlTable& table) {
  PassLimits limits;
  if (auto mode = table.string("mode")) limits.mode = *mode == "once" ? PassMode::once : PassMode::fixpoint;
  if (auto most = table.integer("max_rewrites")) limits.max_rewrites = static_cast<size_t>(*most);
  if (auto timeout = table.integer("timeout_ms")) limits.timeout = std::chrono::milliseconds(*timeout);
  return limits;
}

Result<Descriptor> Descriptor::parse(std::string_view text, const std::string& path) {
  FE_TRY(auto document, parse_toml(text, path));
  TomlTable table(document, path, "");
  FE_CHECK(table.check(descriptor_keys()));

  Descriptor result;
  result.path = path;
  result.text = text;
  for (auto key : {"id", "version", "library", "provides"}) result.places[key] = table.place(key);
  result.id = *table.string("id");
  const auto no_id = [](std::string_view id) {
    return error(FE_EINVALID, "FE-M03", "'{}' is no id; letters, digits, '_' and '-' joined by points", id);
  };
  if (!valid_id(result.id)) return at(table.place("id"), no_id(result.id));
  result.version_text = *table.string("version");
  auto version = Version::parse(result.version_text);
  if (!version) return at(table.place("version"), std::move(version.error()));
  result.version = *version;

  const auto folder = std::filesystem::absolute(path).parent_path().string();
  if (auto library = table.string("library")) {
    auto inside = path_within(folder, *library);
    if (!inside) return at(table.place("library"), std::move(inside.error()));
    result.library = *inside;
    auto abi = table.string("abi");
    if (!abi)
      return at(table.place("library"),
                error(FE_EINVALID, "FE-M03",
                      "the key 'abi' is missing, which a library needs; write abi = \"{}.{}\"", FE_ABI_MAJOR,
                      FE_ABI_MINOR));
    if (auto fits = check_abi(*abi); !fits) return at(table.place("abi"), std::move(fits.error()));
  }
  if (result.library.empty() && table.has("abi"))
    return at(table.place("abi"),
              error(FE_EINVALID, "FE-M03",
                    "'abi' is what a library was built for, and the descriptor names none; "
                    "drop it"));
  const auto rules = table.strings("rules", &result.rule_places);
  for (size_t k = 0; k < rules.size(); ++k) {
    const auto& place = result.rule_places[k];
    auto inside = path_within(folder, rules[k]);
    if (!inside) return at(place, std::move(inside.error()));
    // The rules of a file are one pass, named after the file.
    for (const auto& other : result.rules)
      if (std::filesystem::path(other).filename() == std::filesystem::path(*inside).filename())
        return at(place, error(FE_EINVALID, "FE-M08",
                               "the rule file '{}' has the name of another of this plugin, {}; name each "
                               "file once, and files of several folders differently",
                               rules[k], other));
    // Links are followed: the check concerns the file that is read.
    std::error_code failed;
    const auto real = std::filesystem::weakly_canonical(*inside, failed);
    const auto below = real.lexically_relative(std::filesystem::weakly_canonical(folder, failed));
    if (!failed && !below.empty() && *below.begin() == "..")
      return at(
          place,
          error(FE_EINVALID, "FE-M07",
                "the rule file '{}' is a link to {}, which lies outside of the folder of this file; copy "
                "it into the folder",
                rules[k], real.string()));
    result.rules.push_back(*inside);
  }
  std::vector<std::string> places;
  const auto aliases = table.strings("aliases", &places);
  for (size_t k = 0; k < aliases.size(); ++k) {
    FE_TRY(result.aliases.emplace_back(), read_alias(aliases[k], places[k]));
  }
  if (result.library.empty() && result.rules.empty() && result.aliases.empty())
    return at(path + ":1:1",
              error(FE_EINVALID, "FE-M03",
                    "the descriptor names no library, no rules and no aliases; write one of them"));

  places.clear();
  const auto platforms = table.strings("platform", &places);
  if (table.has("platform") && platforms.empty())
    return at(table.place("platform"),
              error(FE_EINVALID, "FE-M03", "'platform' names none; leave it out where any will do"));
  for (size_t k = 0; k < platforms.size(); ++k)
    if (std::ranges::find(platforms_known, platforms[k]) == std::end(platforms_known))
      return at(places[k],
                error(FE_EINVALID, "FE-M03", "there is no platform '{}'{}; there are {}", platforms[k],
                      did_you_mean(platforms[k], platforms_known), fmt::join(platforms_known, ", ")));
  if (!platforms.empty() && std::find(platforms.begin(), platforms.end(), this_platform) == platforms.end())
    return at(table.place("platform"),
              error(FE_EINVALID, "FE-M16", "the plugin is for {}, this is {}; get a build for this platform",
                    fmt::join(platforms, ", "), this_platform));
  places.clear();
  const auto requirements = table.strings("requires", &places);
  for (size_t k = 0; k < requirements.size(); ++k) {
    FE_TRY(auto requirement, parse_requirement(requirements[k], places[k]));
    result.requirements.push_back(std::move(requirement));
  }
  places.clear();
  result.provides = table.strings("provides", &places);
  for (size_t k = 0; k < result.provides.size(); ++k)
    if (!valid_id(result.provides[k])) return at(places[k], no_id(result.provides[k]));
  places.clear();
  const auto targets = table.strings("targets", &places);
  for (size_t k = 0; k < targets.size(); ++k) {
    const auto colon = targets[k].find(':');
    if (colon == 0 || colon == std::string::npos || targets[k].find('*') < targets[k].size() - 1)
      return at(places[k],
                error(FE_EINVALID, "FE-M03",
                      "'{}' is no kind of device, ':' and a name that may end in '*', as in \"npu:v*\"",
                      targets[k]));
    result.targets.push_back({targets[k].substr(0, colon), targets[k].substr(colon + 1)});
  }
  FE_TRY(result.passes, read_passes(table));
  if (auto config = table.table("config")) {
    FE_TRY(result.config, read_declarations(*config));
  }
  return result;
}

bool TargetPattern::matches(std::string_view target) const {
  const auto colon = target.find(':');
  if (colon != std::string_view::npos) return target.substr(0, colon) == kind;
  const auto word = target.substr(0, target.find_first_of(" \t\r\n"));
  return name.ends_with('*') ? word.starts_with(std::string_view(name).substr(0, name.size() - 1))
                             : word == name;
}

}  // namespace ferrite::core::config
