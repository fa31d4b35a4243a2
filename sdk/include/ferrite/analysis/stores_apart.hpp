// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Recognises loops whose iterations never store to the same element, so that they can run in any order. The
// host uses it to find how many points of a scatter must be serialised, and code generators to run such
// iterations in parallel.
#pragma once

#include <algorithm>

#include "ferrite/loop.hpp"

namespace ferrite::inline v0::loop {

/// Whether points with different values of `statement.vars[var]` never store to the same element, whatever
/// the values of the other variables and of computed indices. This holds if each store has a coordinate, a
/// sum of multiples of symbols, that one step of the variable moves further than all other symbols together:
/// i, or 65536*i + t with t < 65536. Conservative: the answer is false for variables that only distinguish
/// elements together with others (as t above), for coordinates with floordiv or mod, and for stores to one
/// buffer at different indices. Kinds of variables, masks and modes of stores are ignored.
inline bool stores_apart(const index::Pool& pool, const Statement& statement, size_t var) {
  const auto symbol = statement.vars[var].symbol;
  for (const auto& store : statement.stores)
    for (const auto& other : statement.stores)
      if (other.buffer == store.buffer && other.index != store.index) return false;
  return std::ranges::all_of(statement.stores, [&](const Store& store) {
    return std::ranges::any_of(store.index, [&](index::Expr expr) {
      const auto affine = pool.affine(expr);
      if (!affine.rest.empty()) return false;
      // How far the variable, and all others together, move the coordinate.
      index::detail::Wide step = 0, others = 0;
      for (const auto& [term, factor] : affine.terms) {
        const auto range = pool.symbol_range(term);
        const auto wide = index::detail::Wide{factor};
        const auto distance = wide < 0 ? -wide : wide;
        if (term == symbol)
          step = distance;
        else
          others += distance * (index::detail::Wide{range.hi} - range.lo);
      }
      return step > others;
    });
  });
}

}  // namespace ferrite::inline v0::loop
