// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <algorithm>

#include "core/ir/graph/graph.h"
#include "core/ir/graph/print.h"

namespace ferrite::core::graph {
namespace {

Result<void> check_binding(const SymbolTable& symbols, const std::string& name, int64_t size) {
  const auto symbol = symbols.find(name);
  if (!symbol)
    return error(FE_EINVALID, "FE-G12", "the graph has no symbol '{}' to give the size {}", name, size);
  return check_size(name, symbols.range(*symbol), symbols.divisor(*symbol), size);
}

/// Whether the guard holds; none if that depends on symbols.
std::optional<bool> holds(const index::Pool& pool, const Guard& guard) {
  const index::Range left = pool.range(guard.lhs), right = pool.range(guard.rhs);
  const bool known = left.lo == left.hi && right.lo == right.hi;
  switch (guard.relation) {
    case Relation::equal:
      if (guard.lhs == guard.rhs) return true;
      return known ? std::optional(false) : std::nullopt;
    case Relation::not_equal:
      if (guard.lhs == guard.rhs) return false;
      return known ? std::optional(true) : std::nullopt;
    case Relation::less: return known ? std::optional(left.lo < right.lo) : std::nullopt;
    case Relation::less_equal: return known ? std::optional(left.lo <= right.lo) : std::nullopt;
  }
  return std::nullopt;
}

}  // namespace

Result<Graph> specialise(const Graph& graph, std::span<const std::pair<std::string, int64_t>> bindings) {
  const SymbolTable& old = graph.symbols();
  for (const auto& [name, size] : bindings) FE_CHECK(check_binding(old, name, size));

  Graph result(graph);
  SymbolTable symbols;
  std::vector<index::Expr> stand_ins;
  for (index::Symbol k = 0; k < old.size(); ++k) {
    const auto bound =
        std::find_if(bindings.begin(), bindings.end(), [&](const auto& b) { return b.first == old.name(k); });
    if (bound != bindings.end()) {
      stand_ins.push_back(symbols.pool().constant(bound->second));
      continue;
    }
    FE_TRY(const index::Symbol symbol,
           symbols.declare(old.name(k), old.range(k), old.divisor(k), old.hint(k)));
    stand_ins.push_back(symbols.pool().symbol(symbol));
  }
  const auto import = [&](index::Expr e) {
    return symbols.pool().import(old.pool(), e, [&](index::Symbol s) { return stand_ins[s]; });
  };

  for (const Guard& guard : old.guards()) {
    Guard bound{import(guard.lhs), import(guard.rhs), guard.relation, guard.by};
    const auto known = holds(symbols.pool(), bound);
    if (known == false) {
      return error(FE_EINVALID, "FE-G12", "the sizes given break '{}'", print_guard(old, guard));
    }
    if (!known) symbols.add_guard(std::move(bound));
  }

  const auto bind = [&](ValueId id) -> Result<void> {
    for (Dim& dim : result.at(id).type.dims) {
      if (is_static(dim)) continue;
      auto bound = symbols.dim(import(expression_of(dim)));
      if (!bound) {
        return at(fmt::format("dimension {} of value '{}'", old.print(dim), graph.value(id).name),
                  std::move(bound.error()));
      }
      dim = *bound;
    }
    return {};
  };
  for (const Input& input : graph.inputs()) FE_CHECK(bind(input.value));
  for (const ValueId constant : graph.constants()) FE_CHECK(bind(constant));
  for (NodeId node = graph.first(); node; node = graph.next(node)) {
    for (const ValueId value : graph.node(node).results) FE_CHECK(bind(value));
  }
  result.symbols_ = std::move(symbols);
  ++result.revision_;
  return result;
}

}  // namespace ferrite::core::graph
