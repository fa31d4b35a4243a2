// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The values from which samples of a rule are drawn: fixed ones, and those that its text mentions.
#include <algorithm>
#include <initializer_list>

#include "core/passes/rewrite/language/condition.h"
#include "core/passes/rewrite/language/region.h"
#include "driver/validate/samples/sample.h"

namespace ferrite::core::validate {

using graph::AttributeValue;
using rewrite::Expression;
using rewrite::Operand;
using rewrite::OpTerm;

RuleSampler::RuleSampler(const rewrite::Rule& rule, const graph::OpRegistry& registry, uint64_t seed,
                         bool conditions)
    : rule_(rule), registry_(registry), random_(seed), conditions_(conditions) {
  using Sizes = Plan::Sizes;
  constants_.assign(rule.captures.size(), rare_constants);
  pools_.hints = size_hints(rule);
  pools_.sizes = {1, 2, 3, 4};
  for (const double number : {0.0, 1.0, 2.0, -1.0, 0.5}) pools_.numbers.push_back({number, std::nullopt});
  for (const auto& [dtype, weight] : std::initializer_list<std::pair<DType, double>>{{f32, 6},
                                                                                     {f64, 2},
                                                                                     {f16, 1.5},
                                                                                     {bf16, 1},
                                                                                     {i64, 1.5},
                                                                                     {i32, 1},
                                                                                     {i8, 1},
                                                                                     {u8, 1},
                                                                                     {boolean, 0.7},
                                                                                     {i16, 0.3},
                                                                                     {u16, 0.3},
                                                                                     {u32, 0.3},
                                                                                     {u64, 0.3}}) {
    dtypes_.add(dtype, weight);
    pools_.dtypes.push_back(dtype);
  }
  for (const auto& [rank, weight] : std::initializer_list<std::pair<size_t, double>>{
           {0, 0.4}, {1, 1.2}, {2, 2}, {3, 2}, {4, 1.2}, {5, 0.7}})
    ranks_.add(rank, weight);
  for (const auto& [kind, weight] : std::initializer_list<std::pair<Sizes, double>>{{Sizes::unequal, 3},
                                                                                    {Sizes::equal, 3},
                                                                                    {Sizes::ones, 1},
                                                                                    {Sizes::mixed, 1.2},
                                                                                    {Sizes::large, 0.6},
                                                                                    {Sizes::empty, 0.6}})
    sizes_.add(kind, weight);
  for (const rewrite::Choice& choice : rule.choices)
    for (auto& ways = ways_.emplace_back(); const Operand& way : choice.ways)
      ways.add(static_cast<uint32_t>(&way - choice.ways.data()), 1);
  read_text();
  read_regions();
  sizes_.add(Sizes::hinted, pools_.hints.any() ? 3.0 : 0);
}

/// Makes values that the rule's text mentions more frequent.
void RuleSampler::read_text() {
  const auto mention = [&](const AttributeValue& value) {
    if (const auto* dtype = std::get_if<DType>(&value)) {
      if (comparable(*dtype)) dtypes_.add(*dtype, 6);
      if (comparable(*dtype)) pools_.dtypes.insert(pools_.dtypes.end(), 3, *dtype);
    } else if (const auto* text = std::get_if<std::string>(&value)) {
      pools_.strings.push_back(*text);
    } else if (const auto* number = std::get_if<double>(&value)) {
      // On both sides of a bound.
      for (const double factor : {1.0, 0.5, 2.0}) pools_.numbers.push_back({*number * factor, std::nullopt});
    } else if (const auto* integer = std::get_if<int64_t>(&value)) {
      pools_.numbers.push_back({static_cast<double>(*integer), *integer});
      if (*integer > 1) pools_.numbers.push_back({1 / static_cast<double>(*integer), std::nullopt});
      if (*integer >= 1 && *integer <= 16) pools_.sizes.push_back(*integer);
    }
  };
  for (const int64_t rank : pools_.hints.ranks) ranks_.add(static_cast<size_t>(rank), 1.5);
  for (const auto& condition : rule_.conditions)
    for_each_part(condition.expression, [&](const Expression& e) {
      if (e.kind <= Expression::Kind::list) mention(e.literal);
      const bool asks = e.kind == Expression::Kind::constant_of || e.kind == Expression::Kind::value_of;
      if (asks && e.value.kind == Operand::Kind::capture) constants_[e.value.index] = 0.8;
      if (e.kind == Expression::Kind::predicate)
        for (auto& constant : constants_) constant = std::max(constant, 0.4);
    });
  for (const auto* terms : {&rule_.terms, &rule_.yields})
    for (const OpTerm& term : *terms)
      for (const auto& attribute : term.attributes) {
        if (attribute.capture) continue;
        if (const auto* text = std::get_if<std::string>(&attribute.literal)) pools_.strings.push_back(*text);
        const auto* list = std::get_if<std::vector<int64_t>>(&attribute.literal);
        if (!list || list->size() < 2) continue;
        ranks_.add(list->size(), 3);  // a permutation, or one number for each dim
        // Or a shape, for a tensor with as many elements.
        int64_t elements = 1;
        for (const int64_t size : *list)
          elements = size > 0 && elements <= most_elements / size ? elements * size : 0;
        if (elements > 1 && terms == &rule_.terms) pools_.hints.elements.push_back(elements);
      }
}

/// Adds the ranks and sizes that the regions' samples need.
void RuleSampler::read_regions() {
  if (rule_.regions.empty()) return;
  for (const graph::OpInfo* info : registry_.all()) {
    if (rewrite::pointwise(*info)) pointwise_.push_back(info);
  }
  for (const rewrite::Region& region : rule_.regions) {
    if (!region.over) continue;
    ranks_.only(region.over->size());
    for (const rewrite::RegionDim& dim : *region.over) {
      if (dim.kind == rewrite::RegionDim::Kind::size && dim.size <= 64) pools_.sizes.push_back(dim.size);
    }
  }
}

}  // namespace ferrite::core::validate
