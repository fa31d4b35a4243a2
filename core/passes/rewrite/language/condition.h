// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The expressions of a rule, conditions and computed attributes: their kinds, and what they are for a match.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/ir/graph/graph.h"
#include "core/passes/rewrite/language/region.h"
#include "core/passes/rewrite/language/rule.h"
#include "core/passes/rewrite/language/splat.h"
#include "core/support/error.h"

namespace ferrite::core::rewrite {

/// What names stand for while a condition is read.
class NameScope {
 public:
  virtual ~NameScope() = default;
  virtual Result<Operand> value(const text::Token& token) const = 0;       ///< a capture or a matched result
  virtual Result<uint32_t> attribute(const text::Token& token) const = 0;  ///< a captured attribute
  /// The same where the name may be new; it is captured here then.
  virtual Result<uint32_t> capture(const text::Token& token) = 0;
  virtual Result<uint32_t> region(const text::Token& token) const = 0;
  virtual std::optional<uint32_t> dimension(std::string_view name) const = 0;  ///< a size that a region names
};

/// Reads the longest condition at the cursor; predicates that it names are added to `predicates`. Checks kinds as well
/// (FE-R10), functions (FE-R11) and size (FE-R15).
Result<Expression> parse_condition(text::Cursor& cursor, const NameScope& names,
                                   std::vector<std::string>& predicates);

/// Reads what an attribute of a term is: a literal, a captured attribute, or an expression of values and attributes. Where
/// `binds`, $name and the names in a list [$a, 1] may be new. Fills `literal`, `capture` or `computed`.
Result<void> parse_attribute(text::Cursor& cursor, NameScope& names, bool binds, AttributeTerm& attribute);

/// What `value(`, `rank(` and their like are called where an operand is meant: whether this is a function of expressions.
bool is_function(std::string_view name);

/// Calls `visit` with the expression and everything in it.
template <class Visit>
void for_each_part(const Expression& expression, const Visit& visit) {
  visit(expression);
  for (const Expression& child : expression.children) for_each_part(child, visit);
}
/// Whether the expression is a function of `value`.
constexpr bool reads_value(Expression::Kind kind) {
  return kind >= Expression::Kind::dtype_of && kind <= Expression::Kind::value_of;
}

/// What a match knows, for conditions.
class Bindings {
 public:
  virtual ~Bindings() = default;
  virtual graph::ValueId value(const Operand& operand) const = 0;
  virtual const graph::AttributeValue* attribute(uint32_t index) const = 0;
  virtual std::optional<graph::Dim> dimension(uint32_t index) const = 0;
  virtual const RegionMatch* region(uint32_t index) const = 0;  ///< null where it is not known yet
  virtual Result<bool> predicate(uint32_t index) = 0;
};

/// Whether the expression reads a value or an attribute that the match does not have (yet, or as it took another alternative):
/// of `a else b`, whether both do.
bool reads_unbound(const Expression& expression, const Bindings& bindings);

/// What the expression is; none where it depends on something that there is not.
Result<std::optional<graph::AttributeValue>> evaluate(const graph::Graph& graph, SplatCache& splats,
                                                      const Expression& expression, Bindings& bindings);

/// Whether the condition holds. One over something that there is not (a dim beyond the rank, the value of what is no
/// constant, the size of a symbolic dim, an overflow) does not hold, and neither does its negation.
Result<bool> holds(const graph::Graph& graph, SplatCache& splats, const Expression& expression,
                   Bindings& bindings);

/// What a condition that does not hold found: "dtype(%x) is f64, rank(%y) is 3"; of a conjunction what its first part that
/// does not hold found.
Result<std::string> facts(const graph::Graph& graph, SplatCache& splats, const Rule& rule,
                          const Expression& expression, Bindings& bindings);

}  // namespace ferrite::core::rewrite
