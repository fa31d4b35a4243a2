// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Loops whose steps never store to one element, so that they need no order among each other. The question is
// the host's, which asks how many points of a scatter wait for each other, and a code generator's, which runs
// such steps at once.
#pragma once

#include <algorithm>

#include "ferrite/loop.hpp"

namespace ferrite::inline v0::loop {

/// Whether points with different values of `statement.vars[var]` never store to the same element, whatever
/// the other variables are, and the indices that the body computes. So it is where each store has a
/// coordinate, a sum of multiples of symbols, which one step of the variable moves further than all others do
/// together: i, or 65536*i + t with t < 65536. Conservative: of variables that only together tell elements
/// apart, as t above, of coordinates with floordiv or mod, and of stores to one buffer at different indices
/// it says no. Kinds of variables, masks and modes of stores do not count.
inline bool stores_apart(const index::Pool& pool, const Statement& statement, size_t var) {
  const auto symbol = statement.vars[var].symbol;
  for (const auto& store : statement.stores)
    for (const auto& other : statement.stores)
      if (other.buffer == store.buffer && other.index != store.index) return false;
  return std::ranges::all_of(statement.stores, [&](const Store& store) {
    return std::ranges::any_of(store.index, [&](index::Expr expr) {
      const auto affine = pool.affine(expr);
      if (!affine.rest.empty()) return false;
      index::detail::Wide step = 0, others = 0;  // how far it moves the coordinate, and all others together
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
