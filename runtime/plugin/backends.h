// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Plugins that are loaded, and what they contribute to running: runtimes of devices, and providers of code for them.
#pragma once

#include <sys/types.h>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/support/error.h"
#include "ferrite/abi/plugin.h"

namespace ferrite::core::plugin {

enum class OnError : uint8_t { fail, skip };
/// Where a plugin's callbacks run: in this process, or in a child that may crash without harm.
enum class Isolation : uint8_t { in_process, process };

/// A plugin in a process of its own, which answers the calls of its tables.
class PluginProcess {
 public:
  virtual ~PluginProcess() = default;
  virtual const std::string& id() const = 0;
  virtual const std::string& version() const = 0;
  /// Tables that live as long as this.
  virtual const std::vector<fe_contribution>& contributions() const = 0;
  /// The process that runs now; -1 where none does.
  virtual pid_t child() const = 0;
};

struct LoadedPlugin {
  std::string id, version, library, why;
  std::string settings;  ///< its [plugin.ID.config], as text
  OnError on_error = OnError::fail;
  Isolation isolation = Isolation::in_process;
  std::string isolation_place;                ///< of the manifest's word on it; empty: it has none
  const fe_plugin_v0* description = nullptr;  ///< null for one of rule files only, and for one in a child
  std::shared_ptr<PluginProcess> process;     ///< null for one in this process
  std::vector<uint32_t> kinds;                ///< FE_CONTRIBUTION_* of what it gave, in order
  void* instance = nullptr;
};

template <class Table>
struct Contributed {
  const Table* table;
  const LoadedPlugin* plugin;
};

/// The runtimes and providers of loaded plugins, all that running a package needs. Immutable after the last load; then any-thread.
class Backends {
 public:
  Backends() = default;
  /// Destroys the plugins, the one that was loaded last first.
  ~Backends();
  Backends(const Backends&) = delete;

  const std::vector<std::unique_ptr<LoadedPlugin>>& plugins() const { return plugins_; }
  const std::vector<Contributed<fe_provider>>& providers() const { return providers_; }
  const std::vector<Contributed<fe_runtime>>& runtimes() const { return runtimes_; }
  /// Kinds of devices that there are plugins for, loaded or not.
  const std::vector<std::string>& device_kinds() const { return device_kinds_; }
  void set_device_kinds(std::vector<std::string> kinds) { device_kinds_ = std::move(kinds); }

 protected:
  /// Of a provider or a runtime; other kinds are not looked at. FE-P07 where the table is malformed.
  Result<void> add_backend(const LoadedPlugin& plugin, const fe_contribution& contribution);
  /// Forgets what a plugin contributed.
  void remove_backends(const LoadedPlugin& plugin);

  std::vector<std::unique_ptr<LoadedPlugin>> plugins_;

 private:
  std::vector<Contributed<fe_provider>> providers_;
  std::vector<Contributed<fe_runtime>> runtimes_;
  std::vector<std::string> device_kinds_;
};

}  // namespace ferrite::core::plugin
