// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/ir/graph/symbols.h"

#include "core/ir/lexer/expression.h"

namespace ferrite::core::graph {

Result<void> check_size(std::string_view name, index::Range range, int64_t divisor, int64_t size) {
  if (size >= range.lo && size <= range.hi && size % divisor == 0) return {};
  return error(FE_EINVALID, "FE-G12", "size {} of '{}' is outside [{}, {}] or no multiple of {}", size, name,
               range.lo, range.hi, divisor);
}

Result<index::Symbol> SymbolTable::declare(std::string name, index::Range range, int64_t divisor,
                                           int64_t hint) {
  if (name.empty() || names_.contains(name)) {
    return error(FE_EINVALID, "FE-G10", "symbol '{}' is declared twice or has no name", name);
  }
  if (range.lo < 0 || range.hi < range.lo || divisor < 1) {
    return error(
        FE_EINVALID, "FE-G10",
        "symbol '{}' needs a range of sizes [low, high] and a divisor from 1 on, not [{}, {}] and {}", name,
        range.lo, range.hi, divisor);
  }
  if (range.lo / divisor + (range.lo % divisor != 0) > range.hi / divisor) {
    return error(FE_EINVALID, "FE-G10", "no multiple of {} lies in [{}, {}], the range of symbol '{}'",
                 divisor, range.lo, range.hi, name);
  }
  const index::Symbol symbol = pool_.new_symbol(range, divisor, name);
  pool_.symbol(symbol);
  hints_.push_back(hint);
  names_.emplace(std::move(name), symbol);
  return symbol;
}

std::optional<index::Symbol> SymbolTable::find(std::string_view name) const {
  const auto found = names_.find(name);
  if (found == names_.end()) return std::nullopt;
  return found->second;
}

Result<Dim> SymbolTable::dim(index::Expr expression) {
  const index::Range range = pool_.range(expression);
  if (range.lo == range.hi) {
    // An expression with one value is a static size: later stages need not know symbols for it.
    if (range.lo < 0) return error(FE_EINVALID, "FE-G11", "a dimension cannot be {}", range.lo);
    return range.lo;
  }
  if (range.hi < 0) {
    return error(FE_EINVALID, "FE-G11", "dimension {} is always negative", print(dim_of(expression)));
  }
  return dim_of(expression);
}

index::Expr SymbolTable::expression(Dim dim) {
  if (is_static(dim)) return pool_.constant(dim);
  return valid(dim) ? expression_of(dim) : index::Expr{};
}

std::string SymbolTable::print(Dim dim) const {
  if (is_static(dim)) return std::to_string(dim);
  if (!valid(dim)) return "?";
  return text::print_expression(pool_, expression_of(dim),
                                [this](index::Symbol symbol) { return text::sigil_name('$', name(symbol)); });
}

}  // namespace ferrite::core::graph
