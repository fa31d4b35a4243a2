// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The text form of rules read: grammar and names. What the ops say of it is check.h's.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/passes/rewrite/language/rule.h"
#include "core/support/error.h"

namespace ferrite::core::rewrite {

/// FE-R01 grammar, FE-R02 phase, FE-R03 a rule's name is taken, FE-R07 unknown name, FE-R08 name given twice, FE-R09 an
/// unconnected match, FE-R10 a condition that is none, FE-R11 unknown function, FE-R12 a yield that replaces nothing,
/// FE-R13 a misplaced number, FE-R15 too large, FE-R23 a misplaced region; all at file:line:column.
Result<std::vector<Rule>> parse_rules(std::string_view text, const std::string& file);

}  // namespace ferrite::core::rewrite
