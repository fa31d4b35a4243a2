// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Rewrite validation: every rule that is not built in is tested before it is first applied, once on each
// machine.
#pragma once

#include <string>

#include "core/plugin/registry.h"
#include "driver/config/manifest.h"

namespace ferrite::core::validate {

/// Tests the rules of the plugins outside `built_in_folder`, unless `folder` has verdicts for the same text,
/// the same ops and, where the rules have predicates, the same library. A folder that other users can write
/// to is not used. FE-R30 for a wrong rule, with a counterexample in `folder` (in a new temporary folder
/// where that is empty or not used) and a command that shows it; `loading` are the options of that command
/// that load the plugins. FE-R36 under RuleValidation::strict for an untested rule. Where the plugin's
/// on_error is skip, both disable the rules instead. A disabled or untested rule is a warning, and so is
/// FE-R65, a rule that passed on thin evidence (coverage.h); the rest goes to the log, channel "plugins".
Result<void> validate_rules(plugin::Registry& registry, config::RuleValidation level,
                            const std::string& built_in_folder, const std::string& folder,
                            const std::string& loading);

}  // namespace ferrite::core::validate
