// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Parses the text form of rules: grammar and names. check_rules.h checks them against the ops.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/passes/rewrite/language/rule.h"
#include "core/support/error.h"

namespace ferrite::core::rewrite {

/// Errors, all at file:line:column: FE-R01 grammar, FE-R02 phase, FE-R03 duplicate rule name, FE-R07 unknown
/// name, FE-R08 duplicate name, FE-R09 unconnected match, FE-R10 not a condition, FE-R11 unknown function,
/// FE-R12 a yield that replaces nothing, FE-R13 misplaced number, FE-R15 too large, FE-R23 misplaced region.
Result<std::vector<Rule>> parse_rules(std::string_view text, const std::string& file);

}  // namespace ferrite::core::rewrite
