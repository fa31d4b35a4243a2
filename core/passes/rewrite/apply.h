// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Rule sets: compiled from text once, applied to graphs at a phase.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/ir/graph/graph.h"
#include "core/ir/graph/op_registry.h"
#include "core/passes/rewrite/language/rule.h"
#include "core/passes/rewrite/near_miss.h"
#include "core/support/deadline.h"
#include "core/support/error.h"
#include "core/support/ledger.h"
#include "ferrite/abi/contrib.h"

namespace ferrite::core::rewrite {

/// Checked rules in the order of the text. Immutable; any-thread as far as its predicates are.
struct CompiledRules {
  std::vector<Rule> rules;
  std::map<std::string, fe_predicate, std::less<>> predicates;  ///< by name; `self` is borrowed

  /// The phases that the rules are for, each once, in the order of the text.
  std::vector<std::string> phases() const;
};

/// Reads rules and checks them against the ops that there are. Errors are FE-R01 to FE-R15 and FE-R23 at file:line:column.
/// What the predicates point to outlives the result.
Result<CompiledRules> compile_rules(std::string_view text, std::string file,
                                    std::span<const fe_predicate> predicates,
                                    const graph::OpRegistry& registry);

/// A value, and what took its place.
using Replaced = std::pair<graph::ValueId, graph::ValueId>;

/// Looks at applications: at the graph before each, one that is then refused included, and behind each that was made. An
/// error of after() ends apply_rules.
class Watcher {
 public:
  virtual ~Watcher() = default;
  virtual void before(const Rule& rule, const graph::Graph& graph) = 0;
  virtual Result<void> after(const Rule& rule, const graph::Graph& graph,
                             std::span<const Replaced> replaced) = 0;
};

struct ApplyOptions {
  size_t max_rewrites = 100'000;  ///< of one rule, in one call; each op of a copied region counts
  bool once = false;  ///< each node that is there is looked at once, instead of until nothing applies
  size_t most_applications = SIZE_MAX;  ///< of all rules: what would be the next one is left
  Deadline deadline;
  /// What fe_graph_api.evaluate does when a predicate calls it.
  std::function<Result<graph::ValueId>(graph::Graph&, graph::ValueId)> evaluate;
  /// Where not null: applications are added to it by rule name; rules that were never applied are there with 0.
  std::map<std::string, size_t, std::less<>>* counts = nullptr;
  /// Where not null: where rules nearly matched is added to it. Nodes that the rules leave are looked at once nothing applies
  /// any more, those that they replace as they stood before.
  NearMisses* near_misses = nullptr;
  Watcher* watcher = nullptr;
};

/// Applies the rules of a phase, until none applies any more where options.once is not set; gives the number of applications. Where several rules
/// match a node, the first of the text is applied.
///
/// Each application is one step of the journal: where the replacement cannot be made, or its type is not that of what
/// it replaces, it is undone and noted in the ledger ("refused", with the reason as category), and the rest goes on.
/// An error leaves the graph as it was: FE-R16 a predicate failed, FE-R17 a predicate edited the graph, FE-R18 a rule
/// was applied more than max_rewrites times, FE-M21 the deadline has passed.
Result<size_t> apply_rules(const CompiledRules& rules, std::string_view phase, graph::Graph& graph,
                           const graph::OpRegistry& registry, Ledger& ledger, std::string_view plugin_id,
                           const ApplyOptions& options);

}  // namespace ferrite::core::rewrite
