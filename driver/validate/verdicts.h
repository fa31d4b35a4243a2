// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Every rule that is not built in is tried before it is applied for the first time, once on a machine.
#pragma once

#include <string>

#include "core/plugin/registry.h"
#include "driver/config/manifest.h"

namespace ferrite::core::validate {

/// Tries the rules of the plugins outside `built_in_folder`, unless `folder` keeps verdicts on this very text, these ops
/// and, where the rules have predicates, this library; a folder that others may write to is not used. FE-R30 for a wrong one,
/// with a counterexample in `folder` (in a new temporary folder where that is empty or not used) and a command that shows it,
/// of which `loading` are the options that load the plugins; FE-R36 under RuleValidation::strict for one that is untested; both disable
/// the rules instead where the plugin's on_error is skip. What is disabled or untested is a warning, and so is FE-R65, a rule
/// that passed on thin evidence (coverage.h); the rest goes to the log, channel "plugins".
Result<void> validate_rules(plugin::Registry& registry, plugin::RuleValidation level,
                            const std::string& built_in_folder, const std::string& folder,
                            const std::string& loading);

}  // namespace ferrite::core::validate
