// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/ir/loop/index_size.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

namespace ferrite::core::loop {
namespace {

/// Computes the size of a node from the sizes of its operands, which `of` returns.
template <class Of>
struct Sizes {
  const Of& of;

  IndexSize constant(int64_t) const { return {}; }
  IndexSize symbol(index::Symbol) const { return {}; }
  IndexSize sum(int64_t constant, std::span<const index::Term> terms) const {
    IndexSize all{0, 1};
    for (const auto& term : terms) {
      auto part = of(term.expr);
      part.levels += term.coefficient != 1;
      // The chain so far becomes the left operand of one more addition.
      all.levels = all.levels == 0 ? part.levels : 1 + std::max(all.levels, part.levels);
      all.parts = add(all.parts, part.parts);
    }
    if (constant != 0) ++all.levels;
    return all;
  }
  IndexSize mul(index::Expr a, index::Expr b) const { return binary(a, b); }
  IndexSize floordiv(index::Expr a, index::Expr b) const { return binary(a, b); }
  IndexSize mod(index::Expr a, index::Expr b) const { return binary(a, b); }
  IndexSize min(index::Expr a, index::Expr b) const { return binary(a, b); }
  IndexSize max(index::Expr a, index::Expr b) const { return binary(a, b); }

 private:
  static uint32_t add(uint32_t a, uint32_t b) {
    return a > std::numeric_limits<uint32_t>::max() - b ? std::numeric_limits<uint32_t>::max() : a + b;
  }
  IndexSize binary(index::Expr a, index::Expr b) const {
    const auto x = of(a), y = of(b);
    return {1 + std::max(x.levels, y.levels), add(add(x.parts, y.parts), 1)};
  }
};

}  // namespace

IndexSize size_of(const index::Pool& pool, index::Expr expr) {
  if (pool.as_symbol(expr) || pool.as_constant(expr)) return {};
  const auto order = pool.post_order({&expr, 1});  // ascending by number
  std::vector<IndexSize> sizes(order.size());
  const auto of = [&](index::Expr part) {
    const auto found = std::ranges::lower_bound(order, part.id, {}, &index::Expr::id);
    return sizes[static_cast<size_t>(found - order.begin())];
  };
  for (size_t k = 0; k < order.size(); ++k) sizes[k] = pool.visit(order[k], Sizes<decltype(of)>{of});
  return sizes.back();
}

std::optional<std::string> find_deep_index(const index::Pool& pool, const Statement& statement) {
  std::optional<std::string> fault;
  const auto look = [&](const std::vector<index::Expr>& index) {
    for (const auto expr : index)
      if (const auto size = size_of(pool, expr); !fault && size.levels > most_index_levels)
        fault = fmt::format("an index expression has {} levels, more than the {} that kernels take",
                            size.levels, most_index_levels);
  };
  for (const auto& op : statement.ops) look(op.index);
  for (const auto& store : statement.stores) look(store.index);
  return fault;
}

}  // namespace ferrite::core::loop
