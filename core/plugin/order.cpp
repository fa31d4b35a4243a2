// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <algorithm>
#include <map>
#include <set>

#include "core/plugin/registry.h"

namespace ferrite::core::plugin {
namespace {

/// The error for passes that wait for each other; each of `waiting` has another of them before it.
Error cycle_error(const std::vector<const PassEntry*>& members, const std::vector<std::set<size_t>>& next,
                  const std::vector<size_t>& waits, std::string_view phase) {
  auto before = [&](size_t k) {
    size_t other = 0;
    while (waits[other] == 0 || !next[other].contains(k)) ++other;
    return other;
  };
  // Going back from one that waits ends in a cycle: the first pass that is met again is on it.
  size_t k = 0;
  while (waits[k] == 0) ++k;
  for (std::set<size_t> seen; seen.insert(k).second;) k = before(k);
  std::vector<size_t> cycle{k};
  for (size_t other = before(k); other != k; other = before(other)) cycle.push_back(other);
  std::reverse(cycle.begin(), cycle.end());

  std::string edges, where;
  for (size_t n = 0; n < cycle.size(); ++n) {
    const auto &from = *members[cycle[n]], &to = *members[cycle[(n + 1) % cycle.size()]];
    edges += fmt::format("{}{} -> {}", edges.empty() ? "" : ", ", from.name, to.name);
    if (auto place = to.places.find(from.name); place != to.places.end()) where = place->second;
    if (auto place = from.places.find(to.name); place != from.places.end()) where = place->second;
  }
  if (where.empty())
    where = members[k]->plugin->library.empty() ? members[k]->plugin->id : members[k]->plugin->library;
  return at(std::move(where),
            error(FE_EINVALID, "FE-M10", "the passes of {} are in a cycle: {}; drop one 'after' or 'before'",
                  phase, edges));
}

}  // namespace

// Kahn's algorithm over a set ordered by plugin id and name, so that ties are broken the same way everywhere.
Result<std::vector<const PassEntry*>> order_passes(const std::vector<PassEntry>& passes,
                                                   std::string_view phase) {
  std::vector<const PassEntry*> members;
  for (const auto& pass : passes)
    if (pass.phase == phase && pass.enabled) members.push_back(&pass);
  std::map<std::string_view, size_t> number;
  for (size_t k = 0; k < members.size(); ++k) number[members[k]->name] = k;

  std::vector<std::set<size_t>> next(members.size());
  std::vector<size_t> waits(members.size(), 0);
  auto edge = [&](size_t from, size_t to) {
    if (next[from].insert(to).second) ++waits[to];
  };
  for (size_t k = 0; k < members.size(); ++k) {
    // A name that is not there constrains nothing: that plugin or pass may be disabled.
    for (const auto& name : members[k]->after)
      if (auto found = number.find(name); found != number.end()) edge(found->second, k);
    for (const auto& name : members[k]->before)
      if (auto found = number.find(name); found != number.end()) edge(k, found->second);
  }
  auto earlier = [&](size_t a, size_t b) {
    return std::tie(members[a]->plugin->id, members[a]->name) <
           std::tie(members[b]->plugin->id, members[b]->name);
  };
  std::set<size_t, decltype(earlier)> ready(earlier);
  for (size_t k = 0; k < members.size(); ++k)
    if (waits[k] == 0) ready.insert(k);
  std::vector<const PassEntry*> order;
  while (!ready.empty()) {
    size_t k = *ready.begin();
    ready.erase(ready.begin());
    order.push_back(members[k]);
    for (size_t n : next[k])
      if (--waits[n] == 0) ready.insert(n);
  }
  if (order.size() < members.size()) return cycle_error(members, next, waits, phase);
  return order;
}

}  // namespace ferrite::core::plugin
