// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Whether a rule keeps what graphs compute, found out by trying it.
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
  std::string plugin = "the rules' plugin";  ///< whose predicates are called, where one of them fails
  uint64_t seed = 1;
  size_t samples = 32;       ///< graphs on which the rule is to apply and a difference could show
  size_t most_samples = 48;  ///< the same, while further ones show what none did before
  size_t draws = 1200;       ///< graphs that are drawn for that at most
};

struct Verdict {
  enum class Kind : uint8_t {
    passed,    ///< no sample showed a difference
    wrong,     ///< `counterexample` computes something else once the rule was applied
    untested,  ///< no sample reached the rule, or none could be interpreted
  };
  Kind kind = Kind::untested;
  size_t samples = 0;   ///< on which the rule was applied and compared, telling (coverage.h) or not
  bool broken = false;  ///< the plugin's process failed, which ended the trial: another time it may go well
  std::string reason;   ///< wrong: the difference; untested: why
  std::optional<graph::Graph> counterexample;
  Coverage covered;               ///< by these samples
  std::vector<std::string> thin;  ///< passed: why that is little evidence; empty where it is not
  std::string unreached;  ///< passed: what samples without regard for the conditions have, and these do not
};

/// Applies rule `index` of the set once to each of several sampled graphs (sample.h), whatever its pass's mode, and
/// compares what comes out, interpreted over every kind of elements (tensors.h). A counterexample is reduced;
/// where special elements are needed to show it, they are in it as constants. Deterministic. Calls the set's predicates.
Verdict try_rule(const rewrite::CompiledRules& rules, size_t index, const plugin::Registry& registry,
                 const TryOptions& options = {});

/// The one rule as a set of its own.
rewrite::CompiledRules only(const rewrite::CompiledRules& rules, const rewrite::Rule& rule);

/// Applies the rule of a set of one at most so many times; gives how often. One application at a time, as two of a wrong
/// rule may cancel, and one that makes what it matches has no end.
Result<size_t> apply_times(const rewrite::CompiledRules& alone, graph::Graph& graph,
                           const plugin::Registry& registry, const std::string& plugin, size_t times);

}  // namespace ferrite::core::validate
