// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reading a manifest together with all that it extends, before any plugin is searched.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "driver/config/manifest.h"
#include "driver/config/settings_read.h"

namespace ferrite::core::config {

/// The settings in [plugin."id"] of all manifests together.
struct PluginSettings {
  std::string where, library, library_where;
  std::string process_where;  ///< empty: there is no such table
  std::string isolation_where;
  std::optional<OnError> on_error;
  std::optional<Isolation> isolation;
  ProcessLimits process;
  GivenSettings config;
};

struct EnabledPlugin {
  std::string id, why;
};

struct ManifestContent {
  std::vector<EnabledPlugin> enabled;
  std::map<std::string, std::string, std::less<>> disabled;  ///< with the place
  std::map<std::string, PluginSettings, std::less<>> settings;
  Pipeline pipeline;  ///< without plugins and idle passes; `search` has the manifests' own folders
};

/// The absolute form of `path`; `path` itself where there is no working directory.
std::string absolute_path(const std::string& path);
/// The names as views, for suggestions.
std::vector<std::string_view> name_views(const std::vector<std::string>& names);

/// Reads the text at `path` and the manifests that it extends, and applies `profile` (empty: none) over each
/// that defines it. Errors are those of read_pipeline().
Result<ManifestContent> read_manifest(std::string_view text, const std::string& path,
                                      const std::string& profile);

}  // namespace ferrite::core::config
