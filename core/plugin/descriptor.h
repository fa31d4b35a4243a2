// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A plugin's descriptor: the file <id>.plugin.toml beside its library, written by its vendor.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/support/error.h"

namespace ferrite::core::plugin {

/// "1.2.0", with at most a suffix "-rc1". Suffixes count for nothing in comparisons.
struct Version {
  uint32_t major = 0, minor = 0, patch = 0;
  static Result<Version> parse(std::string_view text);  ///< FE-M13
  friend auto operator<=>(const Version&, const Version&) = default;
};

/// "ferrite.std" or "ferrite.std >= 0.1.0".
struct Requirement {
  std::string id;
  Version least;
  std::string where;
};

///     schema = 0
///     id = "acme.fuse"
///     version = "1.2.0"
///     library = "libacme.so"       # optional; without it the plugin is its rule files
///     rules = ["fusions.fe"]       # optional
///     abi = "0.1"                  # of the library
///     platform = "linux-x86_64"    # optional: one or a list
///     requires = ["ferrite.std >= 0.1.0"]
///     passes = ["acme.drop"]       # what manifests may name in 'after' and 'before' while the plugin is not enabled
///     [config]                     # the settings that the plugin takes
///     limit = "integer"            # or number, boolean, string, integers, numbers, strings
///     tile = { m = "integer" }
/// Paths are relative to the descriptor and stay within its folder.
struct Descriptor {
  std::string path;  ///< of the descriptor
  std::string id;
  Version version;
  std::string library;             ///< absolute; empty: none
  std::vector<std::string> rules;  ///< absolute
  std::vector<Requirement> requirements;
  std::vector<std::pair<std::string, std::string>> passes;  ///< name, file:line:col
  std::map<std::string, std::string, std::less<>> config;   ///< types by name, nested ones joined by points

  /// FE-M01..: syntax, unknown keys, types, newer schema, bad version, a path that leaves the folder, another ABI or platform.
  static Result<Descriptor> read(const std::string& path);
  static Result<Descriptor> parse(std::string_view text, const std::string& path);
};

/// What the name of a descriptor ends with.
inline constexpr std::string_view descriptor_suffix = ".plugin.toml";

/// Ids are names joined by points: letters, digits, '_' and '-'.
bool valid_id(std::string_view id);

/// `relative` below `folder`; FE-M07 where it is absolute or leaves it.
Result<std::string> path_within(const std::string& folder, const std::string& relative);

}  // namespace ferrite::core::plugin
