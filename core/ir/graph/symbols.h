// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The symbols of a graph: named sizes with a range, a divisor and a hint; the expressions over them, and
// their guards.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/ir/graph/types.h"
#include "core/support/error.h"

namespace ferrite::core::graph {

enum class Relation : uint8_t { equal, not_equal, less, less_equal };

/// A condition on symbols that the program assumes, and the pass or plugin that added it.
struct Guard {
  index::Expr lhs, rhs;
  Relation relation = Relation::equal;
  std::string by;
  friend bool operator==(const Guard&, const Guard&) = default;
};

/// FE-G12 if the size is outside the range of the symbol of that name or is no multiple of its divisor (1 or
/// more).
Result<void> check_size(std::string_view name, index::Range range, int64_t divisor, int64_t size);

/// The symbols, numbered as in the pool: from 0 in the order of declaration.
class SymbolTable {
 public:
  /// Declares a symbol. FE-G10 if the name is taken, the range is empty or negative, or the divisor is below
  /// 1. `hint` serves cost models and tuning only; -1: none.
  Result<index::Symbol> declare(std::string name, index::Range range, int64_t divisor = 1, int64_t hint = -1);
  std::optional<index::Symbol> find(std::string_view name) const;

  size_t size() const { return hints_.size(); }
  const std::string& name(index::Symbol symbol) const { return pool_.symbol_name(symbol); }
  index::Range range(index::Symbol symbol) const { return pool_.symbol_range(symbol); }
  int64_t divisor(index::Symbol symbol) const { return pool_.symbol_divisor(symbol); }
  int64_t hint(index::Symbol symbol) const { return hints_[symbol]; }

  index::Pool& pool() { return pool_; }
  const index::Pool& pool() const { return pool_; }

  /// Encodes an expression as a dim; an expression with a single value becomes a static dim. FE-G11 if the
  /// expression can be negative.
  Result<Dim> dim(index::Expr expression);
  /// Decodes a dim to an expression; none for a code that is no expression of the pool.
  index::Expr expression(Dim dim);
  bool valid(Dim dim) const {
    return is_static(dim) || (dim < -1 && dim >= -int64_t(pool_.node_count()) - 1);
  }
  std::string print(Dim dim) const;

  const std::vector<Guard>& guards() const { return guards_; }
  void add_guard(Guard guard) { guards_.push_back(std::move(guard)); }
  void drop_guards(size_t count) { guards_.resize(count); }

 private:
  index::Pool pool_;
  std::vector<int64_t> hints_;
  std::map<std::string, index::Symbol, std::less<>> names_;
  std::vector<Guard> guards_;
};

}  // namespace ferrite::core::graph
