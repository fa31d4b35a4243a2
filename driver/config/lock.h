// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Lock files: which bytes the plugins of a manifest have, written once and compared whenever they are loaded.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/support/error.h"
#include "driver/config/manifest.h"

namespace ferrite::core::plugin {

struct LockedFile {
  std::string path;    ///< as the lock writes it; empty: there is none
  std::string sha256;  ///< 64 lower-case hexadecimal digits
  friend bool operator==(const LockedFile&, const LockedFile&) = default;
};

struct LockedPlugin {
  std::string id, version;
  LockedFile library, descriptor;
  std::vector<LockedFile> rules;
  std::string where;  ///< in the lock file
};

/// One lock file. A plugin may stand there more than once, where profiles give it other files.
class Lock {
 public:
  /// The lock file of a manifest: "ferrite.lock" beside "ferrite.toml".
  static std::string path_for(const std::string& manifest);
  /// FE-M01 to FE-M04 as for manifests, FE-M08 for a plugin that stands there twice with the same files.
  static Result<Lock> read(const std::string& path);
  static Result<Lock> parse(std::string_view text, const std::string& path);
  /// What the plugins of the manifest's pipelines are now: of the request, without a profile and with each. Plugins that are
  /// given by name or may be skipped and are not there are left out. Errors of read_pipeline(); FE-M14 for what cannot be read.
  static Result<Lock> make(const PipelineRequest& request);

  /// The file's text; equal plugins give equal texts.
  std::string text() const;
  const std::string& path() const { return path_; }
  const std::vector<LockedPlugin>& plugins() const { return plugins_; }

  /// Compares what was found for a plugin; `descriptor` is its descriptor's text. The library is hashed when it is loaded,
  /// for which its hash goes into `request`. FE-M23 for another hash, FE-M24 where the plugin is not there or has other files.
  Result<void> check(PluginRequest& request, std::string_view descriptor) const;

 private:
  explicit Lock(std::string path) : path_(std::move(path)) {}
  std::string spelled(const std::string& path) const;
  Result<void> add(const PluginRequest& request);

  std::string path_;
  std::vector<LockedPlugin> plugins_;
};

}  // namespace ferrite::core::plugin
