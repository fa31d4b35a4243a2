// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A pipeline's manifest: the enabled plugins, their locations and their settings, based on the default
// pipeline.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/plugin/registry.h"
#include "core/schedule/features.h"
#include "core/support/error.h"
#include "core/support/files/installed_files.h"

namespace ferrite::core::config {

using namespace ferrite::core::plugin;

/// The settings in [pass."name"] of a pass or a rule file.
struct PassOverride {
  std::string name;
  std::optional<bool> enabled;
  std::vector<std::string> after, before;
  std::vector<std::string> after_places, before_places;  ///< of each element
  PassLimits limits;
  std::optional<Expectation> expect;
  std::string where;
  bool may_be_gone = false;  ///< the name may belong to a plugin that was disabled later
};

/// The settings in [rule."name"].
struct RuleOverride {
  std::string name;
  std::optional<Expectation> expect;
  std::string where;
  bool may_be_gone = false;  ///< as for a pass
};

/// Validation of the rules of plugins that are not built in. `off`: rules are applied without validation.
/// `on`: rules are validated when they are first loaded, and wrong ones are rejected. `strict`: rules that no
/// sample reaches are rejected too.
enum class RuleValidation : uint8_t { off, on, strict };

/// A pass or rule of a plugin that was found but is not enabled.
struct IdleName {
  std::string name, plugin;
};

/// A manifest together with all that it extends, resolved to files.
struct Pipeline {
  std::vector<PluginRequest> plugins;  ///< in the order of loading: required plugins come first
  std::vector<PassOverride> passes;    ///< later ones win
  std::vector<RuleOverride> rules;     ///< later ones win
  std::vector<IdleName> idle_passes;   ///< passes of plugins that were found but are not enabled
  std::vector<IdleName> idle_rules;    ///< likewise rules, by their files
  std::map<std::string, std::string, std::less<>> disabled;  ///< plugins that a manifest disables, and where
  std::vector<std::string> search;                           ///< folders that were searched, in order
  std::vector<std::string> manifests;     ///< the files that were read, the outermost first
  std::vector<std::string> profiles;      ///< that they define
  std::string options;                    ///< command-line options that load the same, for messages
  std::string lock;                       ///< the lock file that the plugins were compared with; empty: none
  std::optional<std::string> device;      ///< [pipeline] device
  std::string device_where;               ///< file:line:col of it; empty: no manifest names a device
  bool device_chosen = false;             ///< a manifest other than the default one names the device
  std::vector<std::string> device_kinds;  ///< kinds of devices of built-in plugins that are not disabled
  std::optional<int64_t> threads;         ///< [pipeline] threads
  std::optional<int64_t>
      memory_limit;            ///< [pipeline] memory_limit, in bytes; none or 0: the memory of the machine
  schedule::Features without;  ///< [pipeline] without; [pipeline] fuse affects `fuse` too
  std::optional<RuleValidation> validate_rules;  ///< none: on
  std::optional<bool> tf32;                      ///< [pipeline] tf32; none: as each plugin declares it
  std::optional<std::string> tune;   ///< [pipeline] tune: "off", "cached" or seconds; none: cached
  std::optional<std::string> cache;  ///< [pipeline] cache: "on", "off" or a folder; none: on
};

/// The selection of a pipeline on a command line or in the embedding API.
struct PipelineRequest {
  std::string manifest;  ///< a file; empty: the default
  std::vector<std::string>
      plugins;            ///< libraries, descriptors or folders of descriptors; each is also enabled
  std::string profile{};  ///< the profile [profile.NAME] that overrides the rest; empty: none
  std::string
      /// "cpu:0", overrides [pipeline] device; empty: the manifest's; every_device: all that there are
      /// plugins for
      devices{};
  bool safe_mode = false;  ///< the default pipeline with built-in plugins, ignoring everything else here
  bool use_lock = true;    ///< false: a lock file beside the manifest is ignored
  bool tf32 = false;       ///< true: overrides [pipeline] tf32
  /// The targets to compile for, and further kinds of devices that will run something: built-in plugins that
  /// support them are enabled, too.
  std::vector<std::string> targets{}, kinds{};
};

/// The value of PipelineRequest::devices that stands for all devices.
inline constexpr std::string_view every_device = "*";
/// The prefix of an ability: a plugin provides it followed by the kind of a device.
inline constexpr std::string_view device_ability = "device.";

/// Reads the manifest and all that it extends, finds each enabled plugin and reads its descriptor.
///
///     schema = 0
///     extends = "default"            # or "none", or a manifest relative to this one
///     enable = ["acme.fuse"]         # added to what is extended
///     [plugin."acme.fuse"]
///     on_error = "skip"
///     config = { limit = 3 }
///     [pass."acme.drop"]
///     after = ["passes.cse"]
///     [profile.debug.pipeline]
///     fuse = false
/// file_keys.cpp has all keys.
///
/// Plugins are searched in PipelineRequest::plugins, FERRITE_PLUGIN_PATH (folders separated by ':'; ignored
/// in programs that run with another user's rights), the manifests' folders of `search`, and the built-in
/// folder, in this order. If there is a lock file beside the manifest, the plugins must match it. A named
/// device needs no enabled plugin where a built-in plugin provides it, as "device.KIND", and no enabled
/// plugin does.
/// Errors, at file:line:col: FE-M01 syntax, FE-M02 unknown key, FE-M03 wrong type or missing key, FE-M04
/// newer schema, FE-M05 unknown plugin, FE-M06 missing library or rule file, FE-M07 a path leaves its folder,
/// FE-M08 an id given twice, FE-M12 a requirement is not met, FE-M13 bad version, FE-M14 a file cannot be
/// read, FE-M15 manifests extend each other, FE-M16 another ABI or platform, FE-M17 out of range, FE-M18 a
/// declaration that contradicts itself, FE-M19 no such profile, FE-M23 another hash than the lock's, FE-M24
/// not as the lock has it.
Result<Pipeline> read_pipeline(const PipelineRequest& request);

/// The same for text that is located at `path` without being read from there.
Result<Pipeline> read_pipeline_text(std::string_view text, const std::string& path,
                                    const PipelineRequest& request);

/// Applies the settings of descriptors, [pass] and [rule] to the registered passes. An ordering relative to a
/// pass of a plugin that was found but is not enabled has no effect. Neither has one relative to a missing
/// pass, with a line in the log, while some plugin with on_error = "skip" contributed no passes. FE-M05 for
/// settings of a pass or rule whose plugin is disabled or not enabled; FE-M11 for other names that no loaded
/// plugin has; FE-M20 for an expectation that cannot come true; FE-M22 for a descriptor that contradicts its
/// plugin; FE-M10 for a cycle.
Result<void> apply_pass_settings(const Pipeline& pipeline, std::vector<PassEntry>& passes);

}  // namespace ferrite::core::config
