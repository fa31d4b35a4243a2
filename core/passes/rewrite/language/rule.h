// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A rewrite rule as data: what the text of the rule language (docs/text.md, "rules") says, names resolved to numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/ir/graph/types.h"
#include "core/ir/lexer/lexer.h"

namespace ferrite::core::rewrite {

/// Limits of one rule, so that matching one cannot exhaust the stack.
inline constexpr size_t max_terms = 256, max_operands = 1024, max_nesting = 64;

/// A number as written: `integer` where it is one, so that 64-bit values stay exact.
struct Number {
  double value = 0;
  std::optional<int64_t> integer;
};

/// What stands for a value.
struct Operand {
  enum class Kind : uint8_t {
    capture,  ///< Rule::captures[index]; bound where first met, the same value everywhere
    matched,  ///< result `result` of Rule::terms[index]
    choice,   ///< the value that Rule::choices[index] takes
    made,     ///< result `result` of Rule::yields[index]
    number,   ///< a constant whose every element equals it, rounded to the dtype; in a yield a scalar literal
    any,      ///< any value
    none,     ///< an absent optional operand
  };
  Kind kind = Kind::any;
  uint32_t index = 0, result = 0;
  Number number;
  text::Position position;
};

/// A node of an expression's tree: of a condition, or of what an attribute is.
struct Expression {
  enum class Kind : uint8_t {
    integer,
    number,
    boolean,
    dtype,
    string,
    list,       // literal
    attribute,  // index
    dimension,  // index into Rule::dims
    dtype_of,
    rank_of,
    dim_of,
    shape_of,
    elements_of,
    uses_of,
    constant_of,
    value_of,      // value; dim_of: children[0]
    side_rank_of,  // index into Rule::regions
    predicate,     // index into Rule::predicates
    list_of,       // a list of the children
    add,
    subtract,
    multiply,
    divide,
    negate,
    equal,
    not_equal,
    less,
    less_equal,
    greater,
    greater_equal,
    logical_not,
    logical_and,
    logical_or,
    otherwise,  // children[1] where children[0] reads what the match does not have
  };
  Kind kind = Kind::boolean;
  graph::AttributeValue literal;
  Operand value;
  uint32_t index = 0;
  std::vector<Expression> children;
  text::Position position;
};

/// An attribute of a term. One of `literal`, `capture` and `computed` says what it is.
struct AttributeTerm {
  std::string name;
  graph::AttributeValue literal;
  std::optional<uint32_t> capture;  ///< Rule::attributes; in a match bound where first met
  /// Of the match's values and attributes. In a match a list_of whose children are attributes binds those that are not bound.
  std::optional<Expression> computed;
  /// In a match: what a node without the attribute has. None where the op requires it.
  std::optional<graph::AttributeValue> fallback;
  uint32_t kind = 0;   ///< FE_ATTR_*, once checked
  uint32_t flags = 0;  ///< FE_ATTRIBUTE_*, once checked
  text::Position position;
};

/// One op of a match or a yield.
struct OpTerm {
  std::string op;
  /// Their names; a match may name fewer than the op has. One empty name: the term stands where it is read.
  std::vector<std::string> results;
  std::vector<Operand> operands;  ///< trailing ones that are not given are absent
  std::vector<AttributeTerm> attributes;
  bool once = false;  ///< match: each named result has exactly one use
  std::vector<std::string>
      through;  ///< match: ops that may stand between a result and the term that reads it
  bool commutative = false;
  /// Rule::regions, where the term is the application of one; `op` is its name with the sigil then.
  std::optional<uint32_t> region;
  text::Position position;
};

/// A value of the match that is one of several, tried in order: `%q = sqrt(%v) | pow(%v, 0.5) | %v`. Wherever the rule reads
/// it, it is the same alternative.
struct Choice {
  std::string name;           ///< empty: it stands where it is read
  std::vector<Operand> ways;  ///< at least 2; none of kind `made`, none a region's application
  uint32_t terms_before = 0;  ///< so many of Rule::terms stand before it in the text
  text::Position position;
};

/// A size that a region asks for.
struct RegionDim {
  enum class Kind : uint8_t { any, size, name };
  Kind kind = Kind::any;
  int64_t size = 0;
  uint32_t name = 0;  ///< Rule::dims
};

/// A part of the graph that the match takes whole: every op on the ways from the operand of its one term to that term's
/// result, all of them pointwise.
struct Region {
  std::string name;  ///< without sigil
  std::optional<std::vector<RegionDim>> over;
  text::Position position;
};

/// Conditions are evaluated one by one, in the order of the text, so that the first one that fails can be named.
struct Condition {
  Expression expression;
  std::string text;  ///< canonical spelling
  text::Position position;
};

/// A value of the match that nothing else of it reads. The first root of a rule is its last term, where matching starts: a
/// matched term, or a choice all of whose ways are such. Each further one is a term that is looked for among the users of its
/// operand `anchor`, which is bound by then.
struct Root {
  Operand value;
  uint32_t anchor = 0;
};

/// A matched value gives way to another.
struct Replacement {
  Operand from;  ///< matched, or a choice of such
  Operand to;    ///< capture, matched, choice or made
};

struct Rule {
  std::string name, phase, file;
  text::Position position;
  std::vector<std::string> captures;    ///< names of values, without sigil
  std::vector<std::string> attributes;  ///< names of captured attributes, without sigil
  std::vector<std::string> predicates;
  std::vector<Region> regions;
  std::vector<std::string> dims;  ///< names of the sizes that regions are over
  std::vector<OpTerm> terms;      ///< operands before the terms that read them
  std::vector<Choice> choices;    ///< likewise: a way reads only terms and choices before it
  std::vector<Root> roots;
  std::vector<Condition> conditions;
  std::vector<OpTerm> yields;
  std::vector<Replacement> replacements;

  /// "file:line:column"
  std::string where(text::Position place) const {
    return fmt::format("{}:{}:{}", file, place.line, place.column);
  }
};

}  // namespace ferrite::core::rewrite
