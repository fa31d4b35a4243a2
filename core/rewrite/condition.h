// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The conditions of a rule's where clause: their kinds, and what they are for a match.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/graph/graph.h"
#include "core/rewrite/region.h"
#include "core/rewrite/rule.h"
#include "core/rewrite/splat.h"
#include "core/support/error.h"

namespace ferrite::core::rewrite {

/// What names stand for while a condition is read.
class NameScope {
 public:
  virtual ~NameScope() = default;
  virtual Result<Operand> value(const text::Token& token) const = 0;       ///< a capture or a matched result
  virtual Result<uint32_t> attribute(const text::Token& token) const = 0;  ///< a captured attribute
  virtual Result<uint32_t> region(const text::Token& token) const = 0;
  virtual std::optional<uint32_t> dimension(std::string_view name) const = 0;  ///< a size that a region names
};

/// Reads the longest condition at the cursor; predicates that it names are added to `predicates`. Checks kinds as well
/// (FE-R10), functions (FE-R11) and size (FE-R15).
Result<Expression> parse_condition(text::Cursor& cursor, const NameScope& names,
                                   std::vector<std::string>& predicates);

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

/// Whether the condition holds. One over something that there is not (a dim beyond the rank, the value of what is no
/// constant, the size of a symbolic dim, an overflow) does not hold, and neither does its negation.
Result<bool> holds(const graph::Graph& graph, SplatCache& splats, const Expression& expression,
                   Bindings& bindings);

/// What a condition that does not hold found: "dtype(%x) is f64, rank(%y) is 3"; of a conjunction what its first part that
/// does not hold found.
Result<std::string> facts(const graph::Graph& graph, SplatCache& splats, const Rule& rule,
                          const Expression& expression, Bindings& bindings);

}  // namespace ferrite::core::rewrite
