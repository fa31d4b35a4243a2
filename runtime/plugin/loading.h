// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A plugin's library becomes a plugin: its description is read, then it is created and says what it contributes.
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

/// Opens the library, whose constructors and entry run here, and checks its description. `id`: the one that is expected; empty: any.
/// FE-P01 to FE-P05, FE-P07, FE-P61, and what open_library() says.
Result<DescribedLibrary> describe_library(const std::string& path, const std::string& sha256,
                                          const std::string& id);

/// Creates the plugin that the description is of. What it contributes lives until destroy(). FE-P06, FE-P07.
Result<std::vector<fe_contribution>> create(LoadedPlugin& plugin, const fe_host& host,
                                            std::span<const fe_attr> config);
/// Nothing where it was not created.
void destroy(const LoadedPlugin& plugin);

/// Plugins of which only runtimes and providers are used: what a process needs that runs packages and compiles nothing.
class BackendPlugins : public Backends {
 public:
  explicit BackendPlugins(const fe_host& host) : host_(host) {}
  /// Loads a plugin's library and creates it without settings; its other contributions are passed over. FE-P08 where a plugin of its id is
  /// loaded, and the errors of describe_library() and create().
  Result<const LoadedPlugin*> load(const std::string& library);

 private:
  const fe_host& host_;
};

}  // namespace ferrite::core::plugin
