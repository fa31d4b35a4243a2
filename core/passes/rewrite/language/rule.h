// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A rewrite rule as data: the text of the rule language (docs/text.md, "rules") with names resolved to
// numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/ir/graph/types.h"
#include "core/ir/lexer/lexer.h"

namespace ferrite::core::rewrite {

/// Limits on one rule, so that the recursive matcher cannot exhaust the stack.
inline constexpr size_t max_terms = 256, max_operands = 1024, max_nesting = 64;

/// A number as written. Integers are in `integer`, so that 64-bit values stay exact.
struct Number {
  double value = 0;
  std::optional<int64_t> integer;
};

/// A reference to a value.
struct Operand {
  enum class Kind : uint8_t {
    capture,  ///< Rule::captures[index]; bound at its first use, and the same value everywhere
    matched,  ///< result `result` of Rule::terms[index]
    choice,   ///< the value of the alternative taken for Rule::choices[index]
    made,     ///< result `result` of Rule::yields[index]
    /// In a match: a constant all of whose elements equal the number, rounded to the dtype; in a yield: a
    /// scalar literal.
    number,
    any,   ///< any value
    none,  ///< an absent optional operand
  };
  Kind kind = Kind::any;
  uint32_t index = 0, result = 0;
  Number number;
  text::Position position;
};

/// A node of an expression tree, in a condition or a computed attribute.
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
    value_of,      // value; for dim_of the dim is children[0]
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
    otherwise,  // children[1] if children[0] reads something that the match lacks
  };
  Kind kind = Kind::boolean;
  graph::AttributeValue literal;
  Operand value;
  uint32_t index = 0;
  std::vector<Expression> children;
  text::Position position;
};

/// An attribute of a term. Exactly one of `literal`, `capture` and `computed` is set.
struct AttributeTerm {
  std::string name;
  graph::AttributeValue literal;
  std::optional<uint32_t> capture;  ///< Rule::attributes; in a match bound at its first use
  /// An expression over the match's values and attributes. In a match, a list_of whose children are
  /// attributes binds the unbound ones.
  std::optional<Expression> computed;
  /// In a match: the assumed value for a node without the attribute. None if the op requires the attribute.
  std::optional<graph::AttributeValue> fallback;
  uint32_t kind = 0;   ///< FE_ATTR_*, once checked
  uint32_t flags = 0;  ///< FE_ATTRIBUTE_*, once checked
  text::Position position;
};

/// One op of a match or a yield.
struct OpTerm {
  std::string op;
  /// The names of the results; a match may name fewer than the op has. A single empty name: the term is
  /// written inline at its use.
  std::vector<std::string> results;
  std::vector<Operand> operands;  ///< trailing operands that are not given are absent
  std::vector<AttributeTerm> attributes;
  bool once = false;  ///< match: each named result has exactly one use
  std::vector<std::string>
      through;  ///< match: ops that may stand between a result and the term that reads it
  bool commutative = false;
  /// If the term applies a region: its index in Rule::regions. `op` is then the region's name with its sigil.
  std::optional<uint32_t> region;
  text::Position position;
};

/// A value of the match with several alternatives, tried in order: `%q = sqrt(%v) | pow(%v, 0.5) | %v`. All
/// uses of the choice take the same alternative.
struct Choice {
  std::string name;           ///< empty: written inline at its use
  std::vector<Operand> ways;  ///< at least 2; none is of kind `made` or applies a region
  uint32_t terms_before = 0;  ///< how many of Rule::terms precede it in the text
  text::Position position;
};

/// A size in a region's `over`.
struct RegionDim {
  enum class Kind : uint8_t { any, size, name };
  Kind kind = Kind::any;
  int64_t size = 0;
  uint32_t name = 0;  ///< Rule::dims
};

/// A subgraph that the match takes as a whole: all ops on paths from the operand of the applying term to its
/// result. All of them must be pointwise.
struct Region {
  std::string name;  ///< without the sigil
  std::optional<std::vector<RegionDim>> over;
  text::Position position;
};

/// A condition. Conditions are evaluated one by one in the order of the text, so that messages can name the
/// first one that fails.
struct Condition {
  Expression expression;
  std::string text;  ///< canonical spelling
  text::Position position;
};

/// A value of the match that no other part of the match reads. The first root is the rule's last term, where
/// matching starts: a matched term, or a choice all of whose alternatives are such terms. Each further root
/// is a term that is searched among the users of its operand `anchor`, which is bound by then.
struct Root {
  Operand value;
  uint32_t anchor = 0;
};

/// A matched value and its replacement.
struct Replacement {
  Operand from;  ///< matched, or a choice of matched terms
  Operand to;    ///< capture, matched, choice or made
};

struct Rule {
  std::string name, phase, file;
  text::Position position;
  std::vector<std::string> captures;    ///< names of captured values, without the sigil
  std::vector<std::string> attributes;  ///< names of captured attributes, without the sigil
  std::vector<std::string> predicates;
  std::vector<Region> regions;
  std::vector<std::string> dims;  ///< names of the sizes in regions' `over`
  std::vector<OpTerm> terms;      ///< each after the terms it reads
  std::vector<Choice> choices;    ///< likewise: an alternative reads only terms and choices before it
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
