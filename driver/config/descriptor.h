// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A plugin's descriptor: the file <id>.plugin.toml beside its library, written by its vendor.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/plugin/registry.h"
#include "core/support/error.h"
#include "driver/config/settings_read.h"

namespace ferrite::core::config {

/// "1.2.0", optionally with a suffix "-rc1". Comparisons ignore suffixes.
struct Version {
  uint32_t major = 0, minor = 0, patch = 0;
  static Result<Version> parse(std::string_view text);  ///< FE-M13
  friend auto operator<=>(const Version&, const Version&) = default;
};

/// "ferrite.std" or "ferrite.std >= 0.1.0": a plugin's id, or an ability that a plugin provides.
struct Requirement {
  std::string id;
  Version least;  ///< of the plugin
  std::string where;
};

/// Targets that a plugin supports: a kind of device, and a name that may end in '*'.
struct TargetPattern {
  std::string kind, name;
  /// Whether `target`, as --target takes it, may be one of these.
  bool matches(std::string_view target) const;
};

///     schema = 0
///     id = "acme.fuse"
///     version = "1.2.0"
///     library = "libacme.so"       # optional; without it the plugin is its rule files
///     rules = ["fusions.fe"]       # optional
///     abi = ">= 0.1, < 0.3"        # of the library, or one version
///     platform = "linux-x86_64"    # optional: one or a list
///     requires = ["ferrite.std >= 0.1.0"]
///     provides = ["fusion"]        # abilities that other plugins may require
///     targets = ["npu:v*"]         # the targets for which it compiles
///     aliases = ["onnx:acme::Rope"] # model ops that the plugin's op replaces; "... = acme.rope" names it
///     passes = ["acme.drop"]       # valid in 'after' and 'before' while the plugin is not enabled
///     [config]                     # the settings of the plugin
///     limit = "integer"            # or number, boolean, string, integers, numbers, strings
///     tile = { m = { type = "integer", min = 1, max = 64, default = 8 } }
/// Paths are relative to the descriptor and stay within its folder. file_keys.cpp has all keys.
struct Descriptor {
  std::string path;  ///< of the descriptor
  std::string text;  ///< its bytes
  std::string id;
  std::string version_text;
  Version version;
  std::string library;                   ///< absolute; empty: none
  std::vector<std::string> rules;        ///< absolute
  std::vector<std::string> rule_places;  ///< file:line:col of each rule file
  std::map<std::string, std::string, std::less<>>
      places;  ///< file:line:col of the keys id, version, library, provides
  std::vector<Requirement> requirements;
  std::vector<std::string> provides;
  std::vector<TargetPattern> targets;
  std::vector<DescribedPass> passes;
  std::vector<Alias> aliases;
  Declarations config;

  /// FE-M01..: syntax, unknown keys, types, newer schema, bad version, a path that leaves the folder, another
  /// ABI or platform.
  static Result<Descriptor> read(const std::string& path);
  static Result<Descriptor> parse(std::string_view text, const std::string& path);
};

/// Ids are names joined by dots. A name has letters, digits, '_' and '-'.
bool valid_id(std::string_view id);

/// The limits and the mode of a pass, from a table that was checked: mode, max_rewrites, timeout_ms.
PassLimits read_limits(const TomlTable& table);

/// The path `relative` inside `folder`; FE-M07 where it is absolute or leaves the folder.
Result<std::string> path_within(const std::string& folder, const std::string& relative);

}  // namespace ferrite::core::config
