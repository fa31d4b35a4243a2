// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Prints rules as text. Printed text parses back to the same rule.
#pragma once

#include <string>

#include "core/passes/rewrite/language/rule.h"

namespace ferrite::core::rewrite {

std::string print(const Rule& rule);
std::string print(const Rule& rule, const Expression& expression);
std::string print(const Rule& rule, const OpTerm& term);  ///< without results and modifiers
std::string print(const Rule& rule, const Operand& operand);
std::string print(const Rule& rule, const AttributeTerm& attribute);
std::string print(const Rule& rule, const Choice& choice);       ///< its alternatives
std::string print_over(const Rule& rule, const Region& region);  ///< "over [b, 64]"; region.over must be set

}  // namespace ferrite::core::rewrite
