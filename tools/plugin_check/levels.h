// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The levels of `ferrite plugin check`. Each runs in a process of its own, because the plugin may crash it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "driver/config/manifest.h"
#include "tools/plugin_check/harness/report.h"
#include "tools/plugin_check/harness/target.h"

namespace ferrite::core::plugin_check {

struct CheckOptions {
  Target target;
  std::string manifest;              ///< the manifest with the other plugins; empty: the default pipeline
  std::string profile;               ///< of the manifest; empty: none
  std::vector<std::string> plugins;  ///< further plugins, as --plugin names them
  std::vector<std::string> samples;  ///< models on which passes, rules and importers are tried
  uint64_t seed = 1;                 ///< of sampled graphs and inputs
  bool all = false;                  ///< every case of the conformance list instead of one in ten
  std::string capabilities;  ///< L3: the file or folder for the backend's measured table; empty: nowhere
};

/// The levels in their order.
inline constexpr std::string_view level_names[] = {"L0", "L1", "L2", "L3"};

/// Runs the checks of one level. If the plugin does not load, which is a failure of L1, those of L2 and L3
/// are skipped.
void run_level(std::string_view level, const CheckOptions& options, Runner& runner);

}  // namespace ferrite::core::plugin_check
