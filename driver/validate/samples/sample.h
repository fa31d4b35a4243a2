// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Graphs that a rule should match, drawn from the rule's own text.
#pragma once

#include <algorithm>
#include <boost/dynamic_bitset.hpp>
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

/// A graph that a rule may match, and its properties.
struct Sample {
  graph::Graph graph;
  std::vector<Seen> seen;
};

/// Takes turns: the next value is the one with the fewest turns and successful samples in proportion to its
/// weight.
template <class T>
class Turns {
 public:
  /// Adds to the weight of a value that exists.
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
    // Random every now and then, so that the turns of several lists do not synchronise.
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

/// Builds the terms of a rule's match over random inputs and constants. Ranks, dtypes, kinds of sizes
/// (draw.h) and the alternatives of each choice take turns. Shapes are equal, broadcast, transposed, the last
/// dims, and those that the conditions ask for (size_hints.h); attributes have their defaults and other
/// values. Each term is drawn again until its op accepts the operands and every condition that can be decided
/// by then holds. A region is one to three pointwise ops of any plugin, with random side inputs.
/// Deterministic by seed.
class RuleSampler {
 public:
  /// Keeps references to the rule and the registry. `conditions`: whether the conditions have to hold.
  RuleSampler(const rewrite::Rule& rule, const graph::OpRegistry& registry, uint64_t seed,
              bool conditions = true);

  /// A graph whose outputs are the values that the rule replaces; none where the ops or the conditions
  /// rejected all draws. Only the matcher can say whether the rule matches, because predicates were not
  /// called.
  std::optional<Sample> draw();
  /// Whether useful samples had every alternative.
  bool all_ways_worked() const {
    return std::ranges::all_of(ways_, [](const auto& ways) { return ways.all_worked(); });
  }
  /// The last sample was useful: others of its kind are less urgent.
  void matched();
  /// The conditions of the last sample hold, but the rule was not applied: samples with equal sizes become
  /// more frequent.
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
  boost::dynamic_bitset<> reached_;    // as Rule::choices: those that the last sample has
  Pools pools_;
  std::vector<const graph::OpInfo*> pointwise_;  // by name
  std::vector<double> constants_;                // as Rule::captures: how often each is a constant
  double equal_weight_ = 3;                      // of Plan::Sizes::equal
};

}  // namespace ferrite::core::validate
