// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A pipeline's manifest: which plugins are enabled, from where and with what settings, over the default pipeline.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/plugin/registry.h"
#include "core/schedule/features.h"
#include "core/support/error.h"
#include "core/support/files/installed_files.h"

namespace ferrite::core::plugin {

/// What [pass."name"] says of a pass or a rule file.
struct PassOverride {
  std::string name;
  std::optional<bool> enabled;
  std::vector<std::string> after, before;
  std::vector<std::string> after_places, before_places;  ///< of each element
  PassLimits limits;
  std::optional<Expectation> expect;
  std::string where;
  bool may_be_gone = false;  ///< a plugin was disabled after this was said, whose it may be
};

/// What [rule."name"] says.
struct RuleOverride {
  std::string name;
  std::optional<Expectation> expect;
  std::string where;
  bool may_be_gone = false;  ///< as of a pass
};

/// What becomes of rules of other plugins than the built-in ones: applied unconsidered; tried when they are first loaded, and
/// refused where they are wrong; refused too where no sample reaches them.
enum class RuleValidation : uint8_t { off, on, strict };

/// A pass or rule that is there, but of a plugin that is not enabled.
struct IdleName {
  std::string name, plugin;
};

/// A manifest with everything that it extends, resolved to files.
struct Pipeline {
  std::vector<PluginRequest>
      plugins;                        ///< in the order in which they are loaded: what is required comes first
  std::vector<PassOverride> passes;   ///< later ones win
  std::vector<RuleOverride> rules;    ///< later ones win
  std::vector<IdleName> idle_passes;  ///< passes of plugins that were found and are not enabled
  std::vector<IdleName> idle_rules;   ///< likewise rules, by their files
  std::map<std::string, std::string, std::less<>> disabled;  ///< plugins that a manifest disables, and where
  std::vector<std::string> search;                           ///< folders that were searched, in order
  std::vector<std::string> manifests;     ///< the files that were read, the outermost first
  std::vector<std::string> profiles;      ///< that they define
  std::string options;                    ///< what loads the same on a command line, for people and shells
  std::string lock;                       ///< the lock file that the plugins were compared with; empty: none
  std::optional<std::string> device;      ///< [pipeline] device
  std::string device_where;               ///< file:line:col of it; empty: no manifest names it
  bool device_chosen = false;             ///< by another manifest than the default one
  std::vector<std::string> device_kinds;  ///< that built-in plugins provide which are not disabled
  std::optional<int64_t> threads;         ///< [pipeline] threads
  std::optional<int64_t>
      memory_limit;            ///< [pipeline] memory_limit, in bytes; none or 0: what the machine has
  schedule::Features without;  ///< [pipeline] without; `fuse` by [pipeline] fuse too
  std::optional<RuleValidation> validate_rules;  ///< none: on
  std::optional<std::string> tune;   ///< [pipeline] tune: "off", "cached" or seconds; none: cached
  std::optional<std::string> cache;  ///< [pipeline] cache: "on", "off" or a folder; none: on
};

/// What names a pipeline on a command line or in the embedding API.
struct PipelineRequest {
  std::string manifest;  ///< a file; empty: the default
  std::vector<std::string>
      plugins;            ///< libraries, descriptors or folders of descriptors; each is also enabled
  std::string profile{};  ///< whose [profile.NAME] is put over the rest; empty: none
  std::string
      devices{};  ///< "cpu:0", over [pipeline] device; empty: as that says; every_device: all that there are plugins for
  bool safe_mode = false;  ///< the default pipeline of the built-in plugins and nothing else of all this
  bool use_lock = true;    ///< false: a lock file beside the manifest is not looked at
  /// What is to be compiled for, and kinds of devices beside those named that are to run something: built-in plugins that have them are
  /// enabled, too.
  std::vector<std::string> targets{}, kinds{};
};

/// PipelineRequest::devices that stands for all.
inline constexpr std::string_view every_device = "*";
/// A plugin provides it with the kind of a device behind it.
inline constexpr std::string_view device_ability = "device.";

/// Reads the manifest and what it extends, finds each plugin that is enabled and reads its descriptor.
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
/// readable_keys.cpp has all keys.
///
/// Plugins are searched in PipelineRequest::plugins, FERRITE_PLUGIN_PATH (folders separated by ':'; ignored in programs
/// that run with another user's rights), the manifests' folders of `search`, the built-in folder. Where a lock file stands
/// beside the manifest, what is found must be what it says. A device that is named needs no enabling where a built-in plugin provides it,
/// as "device.KIND", and nothing that is enabled does.
/// Errors, at file:line:col: FE-M01 syntax, FE-M02 unknown key, FE-M03 wrong type or missing key, FE-M04 newer schema,
/// FE-M05 unknown plugin, FE-M06 missing library or rule file, FE-M07 a path leaves its folder, FE-M08 an id given twice,
/// FE-M12 a requirement is not met, FE-M13 bad version, FE-M14 a file cannot be read, FE-M15 manifests extend each other,
/// FE-M16 another ABI or platform, FE-M17 out of range, FE-M18 a declaration that contradicts itself, FE-M19 no such profile,
/// FE-M23 another hash than the lock's, FE-M24 not as the lock has it.
Result<Pipeline> read_pipeline(const PipelineRequest& request);

/// The same for text that stands at `path` without being read from there.
Result<Pipeline> read_pipeline_text(std::string_view text, const std::string& path,
                                    const PipelineRequest& request);

/// Puts what descriptors, [pass] and [rule] say into the registered passes. A pass of a plugin that was found and is not
/// enabled orders nothing; so does, with a line in the log, any that is not there while a plugin with on_error = "skip" gave no
/// pass. FE-M05 for settings of what a plugin has that is disabled or not enabled; FE-M11 for other names that no loaded
/// plugin has; FE-M20 for an expectation that cannot come true; FE-M22 for a
/// descriptor that its plugin contradicts; FE-M10 for a cycle.
Result<void> apply_pass_settings(const Pipeline& pipeline, std::vector<PassEntry>& passes);

}  // namespace ferrite::core::plugin
