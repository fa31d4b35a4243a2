// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Graphs that a rule should match, drawn from its own text.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/graph/graph.h"
#include "core/graph/op_registry.h"
#include "core/rewrite/rule.h"
#include "core/trust/size_hints.h"
#include "core/trust/tensors.h"

namespace ferrite::core::trust {

/// Builds the terms of a rule's match over drawn inputs and constants: shapes with sizes of 0 and 1, broadcast and equal
/// ones, those that the conditions ask for (size_hints.h), every dtype that compares, attributes at their defaults and
/// elsewhere. Each term is drawn again until its op takes the operands and every condition that can be decided by then holds.
/// A region is one to three pointwise ops of any plugin, with drawn side inputs. Deterministic by seed.
class RuleSampler {
 public:
  /// Both outlive it.
  RuleSampler(const rewrite::Rule& rule, const graph::OpRegistry& registry, uint64_t seed);

  /// A graph whose outputs are what the rule replaces; none where the ops or the conditions took nothing that was drawn.
  /// Whether the rule matches is the matcher's to say: predicates were not asked.
  std::optional<graph::Graph> draw();

 private:
  void read_regions();

  const rewrite::Rule& rule_;
  const graph::OpRegistry& registry_;
  Random random_;
  size_t drawn_ = 0;
  std::vector<DType> dtypes_;
  std::vector<int64_t> sizes_, ranks_;
  std::vector<rewrite::Number> numbers_;
  std::vector<std::string> strings_;
  std::vector<const graph::OpInfo*> pointwise_;  // by name
  SizeHints hints_;
  double constants_ = 0.15;  // how often a capture is one
};

}  // namespace ferrite::core::trust
