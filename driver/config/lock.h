// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Lock files: the hashes of a manifest's plugins, written once and compared at each load.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/support/error.h"
#include "driver/config/manifest.h"

namespace ferrite::core::config {

struct LockedFile {
  std::string path;    ///< in the form of the lock; empty: no such file
  std::string sha256;  ///< 64 lower-case hexadecimal digits
  friend bool operator==(const LockedFile&, const LockedFile&) = default;
};

struct LockedPlugin {
  std::string id, version;
  LockedFile library, descriptor;
  std::vector<LockedFile> rules;
  std::string where;  ///< position in the lock file
};

/// One lock file. It may have several entries for a plugin, where profiles give the plugin different files.
class Lock {
 public:
  /// The lock file of a manifest: "ferrite.lock" beside "ferrite.toml".
  static std::string path_for(const std::string& manifest);
  /// FE-M01 to FE-M04 as for manifests; FE-M08 for two entries of a plugin with the same files.
  static Result<Lock> read(const std::string& path);
  static Result<Lock> parse(std::string_view text, const std::string& path);
  /// The current state of the plugins of the manifest's pipelines: of the request without a profile and with
  /// each profile. Plugins that are given by name are left out, and so are missing plugins that may be
  /// skipped. Errors of read_pipeline(); FE-M14 for a file that cannot be read.
  static Result<Lock> make(const PipelineRequest& request);

  /// The file's text; equal plugins give equal texts.
  std::string text() const;
  const std::string& path() const { return path_; }
  const std::vector<LockedPlugin>& plugins() const { return plugins_; }

  /// Compares a found plugin with the lock; `descriptor` is its descriptor's text. The library's expected
  /// hash goes into `request`, because the library is hashed when it is loaded. FE-M23 for another hash,
  /// FE-M24 where the lock lacks the plugin or has other files.
  Result<void> check(PluginRequest& request, std::string_view descriptor) const;

 private:
  explicit Lock(std::string path) : path_(std::move(path)) {}
  std::string spelled(const std::string& path) const;
  Result<void> add(const PluginRequest& request);

  std::string path_;
  std::vector<LockedPlugin> plugins_;
};

}  // namespace ferrite::core::config
