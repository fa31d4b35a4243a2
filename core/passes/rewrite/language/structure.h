// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How the terms and alternatives of a rule hang together: where matching starts, and what every match binds.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "core/passes/rewrite/language/rule.h"
#include "core/support/error.h"

namespace ferrite::core::rewrite {

/// What a match binds, as Rule::captures, attributes, terms and choices.
struct Bound {
  std::vector<bool> captures, attributes, terms, choices;

  explicit Bound(const Rule& rule)
      : captures(rule.captures.size()),
        attributes(rule.attributes.size()),
        terms(rule.terms.size()),
        choices(rule.choices.size()) {}
  /// Whether the operand of the match has a value.
  bool has(const Operand& operand) const;
};

/// What every match of the rule binds, whichever alternatives it takes. Needs the roots.
Bound always_bound(const Rule& rule);
/// What a match binds that takes alternative `way(k)` of choice k. Needs the roots.
Bound bound_by(const Rule& rule, const std::function<size_t(uint32_t choice)>& way);
/// Whether the expression reads only what is in `bound`: of `a else b`, whether one of them does.
bool reads_only(const Expression& expression, const Bound& bound);

/// The terms that a value can be, over all alternatives. Empty where one of these is no term.
std::vector<uint32_t> terms_of(const Rule& rule, const Operand& operand);
/// The longest way from a value down to its deepest term, in terms; as Rule::terms.
std::vector<size_t> depths(const Rule& rule);

/// Finds the roots: the last value of the match, and terms that nothing else reads. FE-R09 where one shares nothing with the
/// rest, or nothing can reach it; FE-R50 where the last value can be something else than a term; FE-R23 where a region is
/// not applied once, or not between two things that every match has.
Result<void> find_roots(Rule& rule);

}  // namespace ferrite::core::rewrite
