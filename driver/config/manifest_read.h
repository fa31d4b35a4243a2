// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reading manifests: what one says together with all that it extends, before any plugin is looked for.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "driver/config/manifest.h"
#include "driver/config/settings_read.h"

namespace ferrite::core::plugin {

/// What [plugin."id"] of all manifests together says.
struct PluginSettings {
  std::string where, library, library_where;
  std::string process_where;  ///< empty: the table is not there
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
  std::map<std::string, std::string, std::less<>> disabled;  ///< and where
  std::map<std::string, PluginSettings, std::less<>> settings;
  Pipeline pipeline;  ///< without plugins and idle passes; `search` has the manifests' own folders
};

/// `path` as it stands where there is no working directory.
std::string absolute_path(const std::string& path);
/// Names as suggestions want them.
std::vector<std::string_view> name_views(const std::vector<std::string>& names);

/// Reads the text at `path` and what it extends, and puts `profile` (empty: none) over each that has it. Errors are those of
/// read_pipeline().
Result<ManifestContent> read_manifest(std::string_view text, const std::string& path,
                                      const std::string& profile);

}  // namespace ferrite::core::plugin
