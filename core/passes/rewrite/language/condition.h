// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The expressions of a rule, in conditions and computed attributes: parsing and evaluating them.
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

/// Resolves names while a condition is parsed.
class NameScope {
 public:
  virtual ~NameScope() = default;
  virtual Result<Operand> value(const text::Token& token) const = 0;       ///< a capture or a matched result
  virtual Result<uint32_t> attribute(const text::Token& token) const = 0;  ///< a captured attribute
  /// Resolves a captured attribute that may be new; if so, captures it here.
  virtual Result<uint32_t> capture(const text::Token& token) = 0;
  virtual Result<uint32_t> region(const text::Token& token) const = 0;
  /// A size named in a region's `over`.
  virtual std::optional<uint32_t> dimension(std::string_view name) const = 0;
};

/// Parses the longest condition at the cursor. Adds the predicates that it names to `predicates`. Also checks
/// kinds (FE-R10), functions (FE-R11) and size (FE-R15).
Result<Expression> parse_condition(text::Cursor& cursor, const NameScope& names,
                                   std::vector<std::string>& predicates);

/// Parses the value of a term's attribute: a literal, a captured attribute, or an expression over values and
/// attributes. If `binds`, $name and the names in a list [$a, 1] may be new. Sets `literal`, `capture` or
/// `computed`.
Result<void> parse_attribute(text::Cursor& cursor, NameScope& names, bool binds, AttributeTerm& attribute);

/// Whether `name` is a function of expressions: `value`, `rank` and so on.
bool is_function(std::string_view name);

/// Calls `visit` for the expression and each of its subexpressions.
template <class Visit>
void for_each_part(const Expression& expression, const Visit& visit) {
  visit(expression);
  for (const Expression& child : expression.children) for_each_part(child, visit);
}
/// Whether the expression is a function of the operand `value`.
constexpr bool reads_value(Expression::Kind kind) {
  return kind >= Expression::Kind::dtype_of && kind <= Expression::Kind::value_of;
}

/// The bindings of a match, for evaluating conditions.
class Bindings {
 public:
  virtual ~Bindings() = default;
  virtual graph::ValueId value(const Operand& operand) const = 0;
  virtual const graph::AttributeValue* attribute(uint32_t index) const = 0;
  virtual std::optional<graph::Dim> dimension(uint32_t index) const = 0;
  virtual const RegionMatch* region(uint32_t index) const = 0;  ///< null if the region is not bound yet
  virtual Result<bool> predicate(uint32_t index) = 0;
};

/// Whether the expression reads a value or attribute that is unbound (so far, or because another alternative
/// was taken); for `a else b`, whether both do.
bool reads_unbound(const Expression& expression, const Bindings& bindings);

/// The value of the expression; none if it depends on something that is unbound or undefined.
Result<std::optional<graph::AttributeValue>> evaluate(const graph::Graph& graph, SplatCache& splats,
                                                      const Expression& expression, Bindings& bindings);

/// Whether the condition holds. A condition over an undefined value (a dim beyond the rank, the value of a
/// non-constant, the size of a symbolic dim, an overflow) does not hold, and neither does its negation.
Result<bool> holds(const graph::Graph& graph, SplatCache& splats, const Expression& expression,
                   Bindings& bindings);

/// The values that make a condition fail: "dtype(%x) is f64, rank(%y) is 3". For a conjunction, those of its
/// first failing part.
Result<std::string> facts(const graph::Graph& graph, SplatCache& splats, const Rule& rule,
                          const Expression& expression, Bindings& bindings);

}  // namespace ferrite::core::rewrite
