// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Validating a rewrite rule: whether it preserves results, tested on samples.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/ir/graph/graph.h"
#include "core/passes/rewrite/apply.h"
#include "core/plugin/registry.h"
#include "driver/validate/samples/coverage.h"

namespace ferrite::core::validate {

struct TryOptions {
  std::string plugin = "the rules' plugin";  ///< the plugin that is named in errors of predicates
  uint64_t seed = 1;
  size_t samples = 32;       ///< graphs to which the rule must apply and on which a difference could show
  size_t most_samples = 48;  ///< the same, as long as further ones show something new
  size_t draws = 1200;       ///< the most graphs that are drawn for that
};

struct Verdict {
  enum class Kind : uint8_t {
    passed,    ///< no sample showed a difference
    wrong,     ///< `counterexample` computes something else after the rule was applied
    untested,  ///< no sample reached the rule, or none could be interpreted
  };
  Kind kind = Kind::untested;
  size_t samples = 0;   ///< on which the rule was applied and compared, telling (coverage.h) or not
  bool broken = false;  ///< the plugin's process failed, which ended the trial; it may succeed another time
  std::string reason;   ///< wrong: the difference; untested: the reason
  std::optional<graph::Graph> counterexample;
  Coverage covered;               ///< by these samples
  std::vector<std::string> thin;  ///< passed: why that is little evidence; empty where it is not
  /// passed: properties of samples without regard for the conditions that these samples lack
  std::string unreached;
};

/// Applies rule `index` of the set once to each of several sampled graphs (sample.h), whatever its pass's
/// mode, and compares the results, interpreted over every kind of elements (tensors.h). A counterexample is
/// reduced; where only special elements show the difference, it has them as constants. Deterministic. Calls
/// the set's predicates.
Verdict try_rule(const rewrite::CompiledRules& rules, size_t index, const plugin::Registry& registry,
                 const TryOptions& options = {});

/// The one rule as a set of its own.
rewrite::CompiledRules only(const rewrite::CompiledRules& rules, const rewrite::Rule& rule);

/// Applies the rule of a set of one at most `times` times; returns how often it was applied. The limit is
/// needed because two applications of a wrong rule may cancel, and a rule that matches its own result never
/// ends.
Result<size_t> apply_times(const rewrite::CompiledRules& alone, graph::Graph& graph,
                           const plugin::Registry& registry, const std::string& plugin, size_t times);

}  // namespace ferrite::core::validate
