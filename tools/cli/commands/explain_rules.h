// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// ferrite explain --applied and --near-misses: what rules did, and where they stopped short.
#pragma once

#include <string>
#include <vector>

#include "core/passes/rewrite/near_miss.h"
#include "core/support/ledger.h"
#include "tools/cli/common.h"

namespace ferrite::cli {

/// FE-R40 where no enabled plugin has a rule of this name; "" stands for all rules.
Result<void> check_rule_name(const core::plugin::Registry& registry, const std::string& rule);

/// Each rule with its plugin and how often it was applied, the most often applied first, with `limit` of its
/// applications.
void print_applied(const core::plugin::Registry& registry, const std::vector<core::LedgerRecord>& records,
                   size_t limit, bool json);

/// The near misses, nearest first. `rule` as it was given, "" = all.
void print_near_misses(const core::plugin::Registry& registry, const core::rewrite::NearMisses& misses,
                       const std::string& rule, const std::vector<core::LedgerRecord>& records, bool json);

}  // namespace ferrite::cli
