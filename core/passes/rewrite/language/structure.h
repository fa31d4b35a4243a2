// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Analyses how the terms and alternatives of a rule connect: where matching starts, and which names every
// match binds.
#pragma once

#include <boost/dynamic_bitset.hpp>
#include <cstdint>
#include <functional>
#include <vector>

#include "core/passes/rewrite/language/rule.h"
#include "core/support/error.h"

namespace ferrite::core::rewrite {

/// A set of bound names, indexed as Rule::captures, attributes, terms and choices.
struct Bound {
  boost::dynamic_bitset<> captures, attributes, terms, choices;

  explicit Bound(const Rule& rule)
      : captures(rule.captures.size()),
        attributes(rule.attributes.size()),
        terms(rule.terms.size()),
        choices(rule.choices.size()) {}
  /// Whether the match's operand is bound.
  bool has(const Operand& operand) const;
};

/// The names that every match binds, whichever alternatives it takes. Requires the roots.
Bound always_bound(const Rule& rule);
/// The names bound by a match that takes alternative `way(k)` of choice k. Requires the roots.
Bound bound_by(const Rule& rule, const std::function<size_t(uint32_t choice)>& way);
/// Whether the expression reads only names in `bound`; for `a else b`, whether a or b does.
bool reads_only(const Expression& expression, const Bound& bound);

/// The terms that can make a value, over all alternatives. Empty if one alternative is no term.
std::vector<uint32_t> terms_of(const Rule& rule, const Operand& operand);
/// For each of Rule::terms, the length in terms of the longest path down to its deepest term.
std::vector<size_t> depths(const Rule& rule);

/// Finds the roots: the last value of the match, and all terms that no other term reads. FE-R09 if a root
/// shares no value with the rest or cannot be reached from it; FE-R50 if the last value can be something
/// other than a term; FE-R23 if a region is not applied exactly once, or its ends are not bound in every
/// match.
Result<void> find_roots(Rule& rule);

}  // namespace ferrite::core::rewrite
