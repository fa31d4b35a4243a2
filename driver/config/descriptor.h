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

namespace ferrite::core::plugin {

/// "1.2.0", with at most a suffix "-rc1". Suffixes count for nothing in comparisons.
struct Version {
  uint32_t major = 0, minor = 0, patch = 0;
  static Result<Version> parse(std::string_view text);  ///< FE-M13
  friend auto operator<=>(const Version&, const Version&) = default;
};

/// "ferrite.std" or "ferrite.std >= 0.1.0": a plugin's id, or what a plugin provides.
struct Requirement {
  std::string id;
  Version least;  ///< of the plugin
  std::string where;
};

/// Targets that a plugin has: a kind of device, and a name that may end in '*'.
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
///     provides = ["fusion"]        # what 'requires' of others may name
///     targets = ["npu:v*"]         # what it compiles for
///     aliases = ["onnx:acme::Rope"] # ops of models that an op of the plugin stands for; "... = acme.rope" says which
///     passes = ["acme.drop"]       # what manifests may name in 'after' and 'before' while the plugin is not enabled
///     [config]                     # the settings that the plugin takes
///     limit = "integer"            # or number, boolean, string, integers, numbers, strings
///     tile = { m = { type = "integer", min = 1, max = 64, default = 8 } }
/// Paths are relative to the descriptor and stay within its folder. readable_keys.cpp has all keys.
struct Descriptor {
  std::string path;  ///< of the descriptor
  std::string text;  ///< its bytes
  std::string id;
  std::string version_text;
  Version version;
  std::string library;                   ///< absolute; empty: none
  std::vector<std::string> rules;        ///< absolute
  std::vector<std::string> rule_places;  ///< file:line:col of each of them
  std::map<std::string, std::string, std::less<>>
      places;  ///< file:line:col of the keys id, version, library, provides
  std::vector<Requirement> requirements;
  std::vector<std::string> provides;
  std::vector<TargetPattern> targets;
  std::vector<DescribedPass> passes;
  std::vector<Alias> aliases;
  Declarations config;

  /// FE-M01..: syntax, unknown keys, types, newer schema, bad version, a path that leaves the folder, another ABI or platform.
  static Result<Descriptor> read(const std::string& path);
  static Result<Descriptor> parse(std::string_view text, const std::string& path);
};

/// Ids are names joined by points: letters, digits, '_' and '-'.
bool valid_id(std::string_view id);

/// What a pass may take and how it runs, from a table that was checked: mode, max_rewrites, timeout_ms.
PassLimits read_limits(const TomlTable& table);

/// `relative` below `folder`; FE-M07 where it is absolute or leaves it.
Result<std::string> path_within(const std::string& folder, const std::string& relative);

}  // namespace ferrite::core::plugin
