// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Loaded plugins, and their contributions for running programs: device runtimes, and providers of code.
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
/// Where a plugin's callbacks run: in this process, or in a child process whose crash does no harm.
enum class Isolation : uint8_t { in_process, process };

/// A plugin in a child process. Its tables forward each call there.
class PluginProcess {
 public:
  virtual ~PluginProcess() = default;
  virtual const std::string& id() const = 0;
  virtual const std::string& version() const = 0;
  /// Tables that live as long as this object.
  virtual const std::vector<fe_contribution>& contributions() const = 0;
  /// The current child process; -1 if none is running.
  virtual pid_t child() const = 0;
};

struct LoadedPlugin {
  std::string id, version, library, why;
  std::string settings;  ///< its [plugin.ID.config], as text
  OnError on_error = OnError::fail;
  Isolation isolation = Isolation::in_process;
  std::string isolation_place;  ///< position of the manifest's 'isolation'; empty: not stated
  /// Null for a plugin of rule files only, and for one in a child process.
  const fe_plugin_v0* description = nullptr;
  std::shared_ptr<PluginProcess> process;  ///< null for a plugin in this process
  std::vector<uint32_t> kinds;             ///< FE_CONTRIBUTION_* of its contributions, in order
  void* instance = nullptr;
};

template <class Table>
struct Contributed {
  const Table* table;
  const LoadedPlugin* plugin;
};

/// The runtimes and providers of loaded plugins: everything that running a package needs. Immutable after the
/// last load, and any-thread from then on.
class Backends {
 public:
  Backends() = default;
  /// Destroys the plugins in reverse order of loading.
  ~Backends();
  Backends(const Backends&) = delete;

  const std::vector<std::unique_ptr<LoadedPlugin>>& plugins() const { return plugins_; }
  const std::vector<Contributed<fe_provider>>& providers() const { return providers_; }
  const std::vector<Contributed<fe_runtime>>& runtimes() const { return runtimes_; }
  /// The device kinds for which plugins exist, loaded or not.
  const std::vector<std::string>& device_kinds() const { return device_kinds_; }
  void set_device_kinds(std::vector<std::string> kinds) { device_kinds_ = std::move(kinds); }

 protected:
  /// Adds a provider or a runtime; contributions of other kinds are ignored. FE-P07 if the table is
  /// malformed.
  Result<void> add_backend(const LoadedPlugin& plugin, const fe_contribution& contribution);
  /// FE-P08, at `place`, where a plugin of this id is loaded.
  Result<void> check_new(const std::string& id, const std::string& place) const;
  /// Removes the contributions of a plugin.
  void remove_backends(const LoadedPlugin& plugin);

  std::vector<std::unique_ptr<LoadedPlugin>> plugins_;

 private:
  std::vector<Contributed<fe_provider>> providers_;
  std::vector<Contributed<fe_runtime>> runtimes_;
  std::vector<std::string> device_kinds_;
};

}  // namespace ferrite::core::plugin
