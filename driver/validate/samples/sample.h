// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Graphs that a rule should match, drawn from its own text.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "core/ir/graph/graph.h"
#include "core/ir/graph/op_registry.h"
#include "core/passes/rewrite/language/rule.h"
#include "driver/validate/samples/coverage.h"
#include "driver/validate/samples/draw.h"
#include "driver/validate/samples/tensors.h"

namespace ferrite::core::validate {

inline constexpr double rare_constants = 0.15;  ///< of all captures

/// A graph that a rule may match, and what it shows of the rule.
struct Sample {
  graph::Graph graph;
  std::vector<Seen> seen;
};

/// Takes turns: the next value is the one whose turns, and whose samples that worked, are the fewest for its weight.
template <class T>
class Turns {
 public:
  /// Adds to the weight of a value that is there.
  void add(T value, double weight) {
    for (auto& turn : turns_)
      if (turn.value == value) {
        turn.weight += weight;
        return;
      }
    if (weight > 0) turns_.push_back({value, weight, 0, 0});
  }
  void only(T value) {
    turns_.clear();
    add(value, 1);
  }
  T next(Random& random) {
    last_ = 0;
    // By chance every now and then, so that the turns of several lists do not keep step.
    if (random.chance(0.25)) {
      last_ = random.below(turns_.size());
    } else {
      for (size_t k = 1; k < turns_.size(); ++k)
        if (turns_[k].load() < turns_[last_].load()) last_ = k;
    }
    ++turns_[last_].tries;
    return turns_[last_].value;
  }
  void worked() { ++turns_[last_].successes; }
  /// The last value made no difference.
  void unused() { --turns_[last_].tries; }
  bool all_worked() const {
    constexpr size_t enough_successes = 3;
    return std::ranges::none_of(turns_, [](const Turn& turn) { return turn.successes < enough_successes; });
  }

 private:
  struct Turn {
    T value;
    double weight;
    size_t tries, successes;
    double load() const {
      constexpr size_t enough = 10;
      const double work = 0.5 * static_cast<double>(tries + 1) + static_cast<double>(successes);
      return work / weight * (successes == 0 && tries >= enough ? 4 : 1);
    }
  };
  std::vector<Turn> turns_;
  size_t last_ = 0;
};

/// Builds the terms of a rule's match over drawn inputs and constants. Ranks, dtypes, kinds of sizes (draw.h) and the
/// alternatives of each choice take turns;
/// shapes are equal, broadcast, transposed, the last dims, and those that the conditions ask for (size_hints.h); attributes
/// have their defaults and other values. Each term is drawn again until its op takes the operands and every condition that
/// can be decided by then holds. A region is one to three pointwise ops of any plugin, with drawn side inputs.
/// Deterministic by seed.
class RuleSampler {
 public:
  /// Both outlive it. Without `conditions` they need not hold.
  RuleSampler(const rewrite::Rule& rule, const graph::OpRegistry& registry, uint64_t seed,
              bool conditions = true);

  /// A graph whose outputs are what the rule replaces; none where the ops or the conditions took nothing that was drawn.
  /// Whether the rule matches is the matcher's to say: predicates were not asked.
  std::optional<Sample> draw();
  /// Whether samples that were of use had every alternative.
  bool all_ways_worked() const {
    return std::ranges::all_of(ways_, [](const auto& ways) { return ways.all_worked(); });
  }
  /// The last sample was of use: others of its kind are less urgent.
  void matched();
  /// The conditions of the last sample hold, and the rule was not applied: more of those whose sizes are equal come.
  void declined();

 private:
  void read_text();
  void read_regions();

  const rewrite::Rule& rule_;
  const graph::OpRegistry& registry_;
  Random random_;
  bool conditions_;
  Turns<DType> dtypes_;
  Turns<size_t> ranks_;
  Turns<Plan::Sizes> sizes_;
  std::vector<Turns<uint32_t>> ways_;  // as Rule::choices
  std::vector<bool> reached_;          // as Rule::choices: those that the last sample has
  Pools pools_;
  std::vector<const graph::OpInfo*> pointwise_;  // by name
  std::vector<double> constants_;                // as Rule::captures: how often each is one
  double equal_weight_ = 3;                      // of Plan::Sizes::equal
};

}  // namespace ferrite::core::validate
