// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Turns a plugin's library into a plugin: reads its description, creates it and collects its contributions.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/support/error.h"
#include "ferrite/abi/plugin.h"
#include "runtime/plugin/backends.h"

namespace ferrite::core::plugin {

struct DescribedLibrary {
  std::string id, version;
  const fe_plugin_v0* description = nullptr;
};

/// Opens the library, which runs its constructors and its entry, and checks its description. `id`: the
/// expected id; empty: any. FE-P01 to FE-P05, FE-P07, FE-P61, and the errors of open_library().
Result<DescribedLibrary> describe_library(const std::string& path, const std::string& sha256,
                                          const std::string& id);

/// Creates the described plugin. Its contributions live until destroy(). FE-P06, FE-P07.
Result<std::vector<fe_contribution>> create(LoadedPlugin& plugin, const fe_host& host,
                                            std::span<const fe_attr> config);
/// Does nothing if the plugin was not created.
void destroy(const LoadedPlugin& plugin);

/// Plugins used for their runtimes and providers only, for a process that runs packages and compiles nothing.
class BackendPlugins : public Backends {
 public:
  explicit BackendPlugins(const fe_host& host) : host_(host) {}
  /// Loads a plugin's library and creates it without settings; its other contributions are ignored. FE-P08 if
  /// a plugin of the same id is loaded; also the errors of describe_library() and create().
  Result<const LoadedPlugin*> load(const std::string& library);

 private:
  const fe_host& host_;
};

}  // namespace ferrite::core::plugin
