// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Loops whose steps never store to one element, so that they need no order among each other. The question is
// the host's, which asks how many points of a scatter wait for each other, and a code generator's, which runs
// such steps at once.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "ferrite/loop.hpp"

namespace ferrite::inline v0::loop {

/// Whether points with different values of `statement.vars[var]` never store to the same element, whatever
/// the other variables are, and the indices that the body computes. So it is where each store has a
/// coordinate, a sum of multiples of symbols, which one step of the variable moves further than all others do
/// together: i, or 65536*i + t with t < 65536. Conservative: of variables that only together tell elements
/// apart, as t above, and of coordinates with floordiv or mod it says no. Kinds of variables, masks and modes
/// of stores do not count.
inline bool stores_apart(const index::Pool& pool, const Statement& statement, size_t var) {
  const auto symbol = statement.vars[var].symbol;
  return std::ranges::all_of(statement.stores, [&](const Store& store) {
    return std::ranges::any_of(store.index, [&](index::Expr expr) {
      const auto affine = pool.affine(expr);
      if (!affine.rest.empty()) return false;
      int64_t step = 0, others = 0;  // how far it moves the coordinate, and how far all others do together
      for (const auto& [term, factor] : affine.terms) {
        const auto range = pool.symbol_range(term);
        if (term == symbol)
          step = std::abs(factor);
        else
          others += std::abs(factor) * (range.hi - range.lo);
      }
      return step > others;
    });
  });
}

}  // namespace ferrite::inline v0::loop
