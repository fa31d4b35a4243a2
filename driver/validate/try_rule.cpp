// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "driver/validate/try_rule.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "driver/validate/reduce.h"
#include "driver/validate/samples/sample.h"
#include "ferrite/counted.hpp"

namespace ferrite::core::validate {
namespace {

// Of a sample's loops. Small samples suffice for most rules; those whose conditions need larger ones get a
// few.
constexpr int64_t few_points = 200'000, most_points = 2'000'000;
constexpr size_t most_large_samples = 4, most_empty = 4;
constexpr size_t samples_without_news = 8, free_draws = 60;

using graph::Graph;

/// Whether the process of an isolated plugin failed, as opposed to the plugin's own answer.
bool process_failed(const Error& error) {
  constexpr std::array<std::string_view, 6> codes = {"FE-P26", "FE-P27", "FE-P28",
                                                     "FE-P29", "FE-P31", "FE-P32"};
  return std::ranges::find(codes, error.code) != codes.end();
}

class Trial {
 public:
  Trial(const rewrite::CompiledRules& rules, size_t index, const plugin::Registry& registry,
        const TryOptions& options)
      : alone_(only(rules, rules.rules[index])),
        rule_(alone_.rules[0]),
        registry_(registry),
        options_(options),
        sampler_(rule_, registry.ops(), options.seed) {}

  Verdict run() {
    for (size_t draw = 0; draw < options_.draws && wants_more(); ++draw) {
      const auto sample = sampler_.draw();
      if (!sample) continue;
      ++drawn_;
      if (try_on(*sample) || verdict_.broken) return std::move(verdict_);
    }
    if (verdict_.samples > 0) {
      verdict_.kind = Verdict::Kind::passed;
      verdict_.reason.clear();
      look_for_gaps();
    } else if (verdict_.reason.empty()) {
      verdict_.reason = drawn_ == 0 ? "no sample met the operands that its ops and conditions want"
                                    : fmt::format("it matched none of {}", counted(drawn_, "sample"));
    }
    return std::move(verdict_);
  }

 private:
  Result<size_t> apply(Graph& graph) const {
    return apply_times(alone_, graph, registry_, options_.plugin, 1);
  }

  /// After enough samples: whether one of the last few showed something new, or an alternative is still
  /// missing.
  bool wants_more() const {
    const size_t telling = verdict_.covered.telling();
    if (telling < options_.samples) return true;
    if (!sampler_.all_ways_worked()) return telling < 2 * options_.most_samples;
    return telling < options_.most_samples && telling - last_new_ < samples_without_news;
  }

  /// Compares the samples with those that the rule's ops would accept without the conditions.
  void look_for_gaps() {
    RuleSampler free(rule_, registry_.ops(), options_.seed, false);
    Coverage offered;
    for (size_t draw = 0; draw < free_draws; ++draw)
      if (const auto sample = free.draw()) {
        free.matched();
        offered.add(sample->seen);
      }
    verdict_.thin = verdict_.covered.thin(rule_, offered, declined_);
    verdict_.unreached = verdict_.covered.lacks(offered);
  }

  void note(const Sample& sample, bool telling) {
    ++verdict_.samples;
    if (!telling) ++weak_samples_;
    sampler_.matched();
    const size_t known = verdict_.covered.distinct();
    verdict_.covered.add(sample.seen, telling);
    if (verdict_.covered.distinct() > known) last_new_ = verdict_.covered.telling();
  }

  /// The results that the rule replaces come first.
  size_t elements_replaced(const Graph& graph) const {
    size_t count = 0;
    const size_t replaced = std::min(rule_.replacements.size(), graph.outputs().size());
    for (const auto& output : graph.outputs().first(replaced))
      count += static_cast<size_t>(graph.type(output.value).elements().value_or(0));
    return count;
  }

  /// Whether a result depends on the positions of the inputs' elements. On tensors of one element each, or
  /// where one element was read everywhere, most errors with axes, sizes and positions have no effect.
  bool tells(const Interpreted& before) const {
    const Graph& graph = before.graph();
    const auto several = [&](graph::ValueId id) { return graph.type(id).elements().value_or(0) > 1; };
    if (std::ranges::none_of(graph.inputs(), [&](const auto& input) { return several(input.value); }) &&
        std::ranges::none_of(graph.constants(), several))
      return false;
    const auto first = before.run(before.random_inputs(Contents::positive, 1));
    const auto second = before.run(before.random_inputs(Contents::positive, 2));
    if (!first || !second) return true;
    const size_t replaced = std::min(rule_.replacements.size(), first->size());
    for (size_t k = 0; k < replaced; ++k) {
      const Tensor& result = (*first)[k];
      const auto count = static_cast<size_t>(graph.type(graph.outputs()[k].value).elements().value_or(0));
      if (count == 0) continue;
      const auto width = static_cast<std::ptrdiff_t>(result.size() / count);
      const bool uniform = std::equal(result.begin() + width, result.end(), result.begin());
      // A result that is the same for all inputs is so because of the rule itself.
      if (count == 1 || !uniform || result == (*second)[k]) return true;
    }
    return false;
  }

  /// Returns whether the verdict is found.
  bool try_on(const Sample& sample) {
    const Graph& graph = sample.graph;
    Graph edited(graph);
    const auto count = apply(edited);
    if (!count) {
      verdict_.reason = count.error().message();
      // Each further sample might crash another process.
      verdict_.broken = process_failed(count.error());
      return false;
    }
    if (*count == 0) {
      declined_.add(sample.seen, false);
      sampler_.declined();
      return false;
    }
    const bool empty = elements_replaced(graph) == 0;
    // Results without elements always agree, so a few such samples are enough.
    if (empty && ++empty_ > most_empty) return false;
    auto before = Interpreted::make(graph, registry_);
    if (!before) return unusable(before.error());
    const bool large = before->points() > few_points;
    if (before->points() > most_points || (large && large_samples_++ >= most_large_samples)) return false;
    auto after = Interpreted::make(std::move(edited), registry_);
    if (!after) return unusable(after.error());
    auto found = compare(*before, *after, every_contents, options_.seed + drawn_);
    if (!found) return unusable(found.error());
    if (!*found) {
      if (empty) {
        if (verdict_.reason.empty()) verdict_.reason = "no sample had a result with elements";
        return false;
      }
      const bool telling = tells(*before);
      // Weak samples count only in a small proportion, so that they do not replace telling ones.
      if (telling || weak_samples_ < options_.samples / 4) note(sample, telling);
      return false;
    }
    note(sample, true);
    verdict_.kind = Verdict::Kind::wrong;
    verdict_.reason = (*found)->text();
    verdict_.counterexample = smallest(graph, **found);
    return true;
  }

  bool unusable(const Error& fault) {
    verdict_.reason = "the samples cannot be interpreted: " + fault.message();
    return false;
  }

  Graph smallest(const Graph& graph, const Difference& found) {
    const Edit edit = [&](Graph& part) -> Result<void> {
      FE_TRY([[maybe_unused]] const size_t count, apply(part));
      return {};
    };
    // If ordinary elements show the difference too, the file needs no special ones.
    if (effect_of(edit, graph, registry_, ordinary_contents))
      return reduce(graph, edit, registry_, ordinary_contents);
    Graph part = reduce(graph, edit, registry_, {&found.contents, 1});
    const auto shown = effect_of(edit, part, registry_, {&found.contents, 1});
    if (!shown) return part;
    Graph fixed(part);
    for (const auto& input : shown->inputs)
      // Larger contents cannot be literals of a text.
      if (input.size() > graph::Constant::max_literal_bytes) return part;
    for (size_t k = 0; k < shown->inputs.size(); ++k) {
      const graph::ValueId input = fixed.inputs()[k].value;
      auto literal = fixed.add_literal(fixed.type(input), shown->inputs[k]);
      if (!literal || !fixed.replace_uses(input, *literal)) return part;
    }
    fixed.commit();
    // The edit may behave differently on constants, so the difference is checked again.
    return effect_of(edit, fixed, registry_, ordinary_contents) ? fixed : part;
  }

  const rewrite::CompiledRules alone_;
  const rewrite::Rule& rule_;
  const plugin::Registry& registry_;
  const TryOptions options_;
  RuleSampler sampler_;
  size_t drawn_ = 0, large_samples_ = 0, weak_samples_ = 0, empty_ = 0, last_new_ = 0;
  Coverage declined_;  // by samples to which the rule was not applied
  Verdict verdict_;
};

}  // namespace

rewrite::CompiledRules only(const rewrite::CompiledRules& rules, const rewrite::Rule& rule) {
  rewrite::CompiledRules alone;
  alone.rules.push_back(rule);
  alone.predicates = rules.predicates;
  return alone;
}

Result<size_t> apply_times(const rewrite::CompiledRules& alone, Graph& graph,
                           const plugin::Registry& registry, const std::string& plugin, size_t times) {
  Ledger ledger;
  rewrite::ApplyOptions options;
  options.most_applications = times;
  return rewrite::apply_rules(alone, alone.rules[0].phase, graph, registry.ops(), ledger, plugin, options);
}

Verdict try_rule(const rewrite::CompiledRules& rules, size_t index, const plugin::Registry& registry,
                 const TryOptions& options) {
  return Trial(rules, index, registry, options).run();
}

}  // namespace ferrite::core::validate
