// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Checks rules against the registered ops, and against infinite rewriting.
#pragma once

#include "core/ir/graph/op_registry.h"
#include "core/passes/rewrite/language/rule.h"
#include "core/support/error.h"

namespace ferrite::core::rewrite {

/// Fills in what the ops define (commutativity, defaults, kinds of attributes). FE-R04 unknown op, FE-R05
/// wrong number of operands or results, FE-R06 unknown, missing or wrongly typed attribute, FE-R13 a number
/// whose element type no value determines, FE-R14 a yield that its own match would match again.
Result<void> check_rule(Rule& rule, const graph::OpRegistry& registry);

}  // namespace ferrite::core::rewrite
