// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Rule sets: compiled from text once, then applied to graphs at their phases.
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

/// Checked rules in the order of the text. Immutable; any-thread if its predicates are.
struct CompiledRules {
  std::vector<Rule> rules;
  std::map<std::string, fe_predicate, std::less<>> predicates;  ///< by name; `self` is borrowed

  /// The phases of the rules, without duplicates, in the order of the text.
  std::vector<std::string> phases() const;
};

/// Parses rules and checks them against the registered ops. Errors are FE-R01 to FE-R15 and FE-R23 at
/// file:line:column. The objects that the predicates point to must outlive the result.
Result<CompiledRules> compile_rules(std::string_view text, std::string file,
                                    std::span<const fe_predicate> predicates,
                                    const graph::OpRegistry& registry);

/// A value and its replacement.
using Replaced = std::pair<graph::ValueId, graph::ValueId>;

/// Observes applications: before() sees the graph before each one, even if it is then refused, and after()
/// the graph after each one that succeeded. An error of after() ends apply_rules.
class Watcher {
 public:
  virtual ~Watcher() = default;
  virtual void before(const Rule& rule, const graph::Graph& graph) = 0;
  virtual Result<void> after(const Rule& rule, const graph::Graph& graph,
                             std::span<const Replaced> replaced) = 0;
};

struct ApplyOptions {
  size_t max_rewrites = 100'000;  ///< limit per rule and call; each op of a copied region counts
  bool once = false;              ///< visit each existing node once instead of iterating to a fixed point
  size_t most_applications = SIZE_MAX;  ///< limit over all rules; further applications are not made
  Deadline deadline;
  /// Implements fe_graph_api.evaluate for predicates.
  std::function<Result<graph::ValueId>(graph::Graph&, graph::ValueId)> evaluate;
  /// If not null, applications are added to it by rule name; a rule that never applied is entered with 0.
  std::map<std::string, size_t, std::less<>>* counts = nullptr;
  /// If not null, near misses are added to it. Remaining nodes are examined at the fixed point, replaced
  /// nodes in their original state.
  NearMisses* near_misses = nullptr;
  Watcher* watcher = nullptr;
};

/// Applies the rules of a phase until none applies any more (unless options.once is set); returns the number
/// of applications. If several rules match a node, the first one in the text is applied.
///
/// Each application is one journal step. If the replacement cannot be made, or its type differs from that of
/// the replaced value, the step is undone and recorded in the ledger ("refused", with the reason as
/// category), and the driver continues. An error leaves the graph unchanged: FE-R16 a predicate failed,
/// FE-R17 a predicate edited the graph, FE-R18 a rule was applied more than max_rewrites times, FE-M21 the
/// deadline has passed.
Result<size_t> apply_rules(const CompiledRules& rules, std::string_view phase, graph::Graph& graph,
                           const graph::OpRegistry& registry, Ledger& ledger, std::string_view plugin_id,
                           const ApplyOptions& options);

}  // namespace ferrite::core::rewrite
