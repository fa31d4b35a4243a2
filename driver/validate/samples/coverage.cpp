// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "driver/validate/samples/coverage.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "core/passes/rewrite/language/condition.h"
#include "ferrite/counted.hpp"

namespace ferrite::core::validate {
namespace {

using rewrite::Expression;
using rewrite::Operand;
using Kind = Expression::Kind;
using What = Seen::What;

constexpr size_t most_named = 6;  // values under one heading of a text

/// The properties that conditions test, and that therefore may have only one value.
struct Restricted {
  bool predicates = false, dtypes = false, all_ranks = false, shapes = false;
  std::set<uint32_t> ranks;    // of captures
  std::set<uint32_t> sizes;    // of captures
  std::set<uint32_t> terms;    // those whose results' sizes are tested
  std::set<uint32_t> dims;     // of regions
  std::set<uint32_t> numbers;  // captures that are read as one number

  explicit Restricted(const rewrite::Rule& rule) {
    for (const auto& region : rule.regions) all_ranks = all_ranks || region.over.has_value();
    std::vector<std::set<uint32_t>> alike;  // captures whose shapes one condition compares
    for (const auto& condition : rule.conditions) {
      std::set<uint32_t> shapes;
      bool whole = false;
      rewrite::for_each_part(condition.expression, [&](const Expression& e) {
        const bool capture = e.value.kind == Operand::Kind::capture;
        predicates = predicates || e.kind == Kind::predicate;
        const bool sized = e.kind == Kind::shape_of || e.kind == Kind::dim_of || e.kind == Kind::elements_of;
        if (sized && capture) sizes.insert(e.value.index);
        if (sized && e.value.kind == Operand::Kind::matched) terms.insert(e.value.index);
        if (e.kind == Kind::dimension) dims.insert(e.index);
        this->shapes = this->shapes || e.kind == Kind::shape_of;
        dtypes = dtypes || e.kind == Kind::dtype_of;
        whole = whole || e.kind == Kind::list;
        if (e.kind == Kind::rank_of) {
          ranks.insert(e.value.index);
          all_ranks = all_ranks || !capture;
        }
        if (e.kind == Kind::shape_of && capture) shapes.insert(e.value.index);
        if (e.kind == Kind::elements_of && capture) ranks.insert(e.value.index);
      });
      if (whole) ranks.insert(shapes.begin(), shapes.end());
      alike.push_back(std::move(shapes));
    }
    // A constant that is read as one number is that number, whatever its rank.
    for (const auto& term : rule.yields)
      for (const auto& attribute : term.attributes)
        if (attribute.computed)
          rewrite::for_each_part(*attribute.computed, [&](const Expression& e) {
            if (e.kind == Kind::value_of && e.value.kind == Operand::Kind::capture)
              numbers.insert(e.value.index);
          });
    ranks.insert(numbers.begin(), numbers.end());
    for (size_t pass = 0; pass < alike.size(); ++pass)
      for (const auto& set : alike)
        if (std::ranges::any_of(set, [&](uint32_t k) { return ranks.contains(k); }))
          ranks.insert(set.begin(), set.end());
  }
  bool holds(What what, uint32_t of) const {
    switch (what) {
      case What::rank: return all_ranks || ranks.contains(of);
      case What::dtype: return dtypes;
      case What::sizes: return shapes || sizes.contains(of);
      case What::part: return shapes || terms.contains(of);
      case What::dim: return dims.contains(of);
      default: return false;
    }
  }
};

std::string listed(const auto& values, const auto& text_of) {
  std::string text;
  size_t count = 0;
  for (const auto& value : values) {
    if (count++ == most_named) return fmt::format("{} and {} more", text, values.size() - most_named);
    text += (text.empty() ? "" : ", ") + text_of(value);
  }
  return text;
}

}  // namespace

void Coverage::add(const std::vector<Seen>& sample, bool telling) {
  telling_ += telling;
  for (const Seen& seen : sample) {
    Entry& entry = entries_[{seen.what, seen.of}];
    entry.heading = seen.heading;
    ++entry.values[seen.value];
  }
}

size_t Coverage::distinct() const {
  size_t count = 0;
  for (const auto& [key, entry] : entries_) count += entry.values.size();
  return count;
}

std::string Coverage::text() const {
  std::string text;
  for (const auto& [key, entry] : entries_)
    text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", entry.heading,
                        listed(entry.values, [](const auto& value) {
                          return fmt::format("{} ({})", value.first, value.second);
                        }));
  return text;
}

std::string Coverage::lacks(const Coverage& offered) const {
  std::string text;
  for (const auto& [key, entry] : offered.entries_) {
    const auto found = entries_.find(key);
    std::vector<std::string> missing;
    for (const auto& [value, count] : entry.values)
      if (found == entries_.end() || !found->second.values.contains(value)) missing.push_back(value);
    if (!missing.empty())
      text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", entry.heading,
                          listed(missing, [](const std::string& value) { return value; }));
  }
  return text;
}

/// Whether these samples, to which the rule was not applied, had the offered values often enough: any of them
/// where a predicate may have declined the rule, each of them where types alone may have prevented it,
/// because types agree by chance.
bool Coverage::was_tried(const std::pair<Seen::What, uint32_t>& key, const Entry& offered,
                         bool by_predicate) const {
  constexpr size_t enough = 3;
  const auto found = entries_.find(key);
  if (found == entries_.end()) return false;
  size_t total = 0;
  bool each = true;
  for (const auto& [value, count] : offered.values) {
    const size_t tried = found->second.count(value);
    total += tried;
    each = each && tried >= enough;
  }
  return by_predicate ? total >= enough : each;
}

std::vector<std::string> Coverage::thin(const rewrite::Rule& rule, const Coverage& offered,
                                        const Coverage& declined) const {
  constexpr size_t often = 6;  // of the samples offered: fewer may have been missed by chance
  std::vector<std::string> reasons;
  if (telling_ < least_samples)
    reasons.push_back("it was tried on " + counted(telling_, "graph") + " only that could show a difference");
  const Restricted restricted(rule);
  for (const auto& [key, entry] : offered.entries_) {
    const auto [what, of] = key;
    const auto found = entries_.find(key);
    if (what == What::alternative) {
      for (const auto& [value, count] : entry.values)
        if (found == entries_.end() || !found->second.values.contains(value))
          reasons.push_back(fmt::format("no graph had {} as {}", value, entry.heading));
      continue;
    }
    if (found == entries_.end() || restricted.holds(what, of)) continue;
    const Entry& seen = found->second;
    if (what == What::sizes) {
      // With equal sizes, confusing two dims has no effect.
      if (seen.count("equal") > 0 &&
          seen.count("unequal") + seen.count("with ones") + seen.count(one_element) == 0 &&
          entry.count("unequal") >= often)
        reasons.push_back(fmt::format("{} were equal in all graphs", entry.heading));
      // With one element, no element can be confused with another.
      if (seen.count(one_element) > 0 && seen.values.size() == 1 && !restricted.numbers.contains(of) &&
          entry.values.size() > 1)
        reasons.push_back(fmt::format("{} were 1 in all graphs", entry.heading));
      continue;
    }
    const bool varies = what == What::rank || what == What::dtype || what == What::attribute ||
                        what == What::part || what == What::dim;
    if (!varies || seen.values.size() != 1 || entry.values.size() < 2) continue;
    const std::string& only = seen.values.begin()->first;
    if (what == What::part && (only != as_large || entry.count(of_other_sizes) < often)) continue;
    Entry others = entry;
    others.values.erase(only);
    // A predicate may restrict a property to one value, if it saw others. Types may restrict a list to one
    // value, such as dilations that a yield drops, except where sizes agree by chance.
    const bool by_chance = what == What::attribute && only.starts_with('[') && !restricted.predicates;
    if (!by_chance && declined.was_tried(key, others, restricted.predicates)) continue;
    reasons.push_back(fmt::format("{} was {} in all graphs", entry.heading, only));
  }
  return reasons;
}

}  // namespace ferrite::core::validate
