// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <algorithm>
#include <map>
#include <set>

#include "core/plugin/registry.h"

namespace ferrite::core::plugin {

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
    if (from != to && next[from].insert(to).second) ++waits[to];
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
  if (order.size() == members.size()) return order;

  std::string edges;
  for (size_t k = 0; k < members.size(); ++k)
    for (size_t n : next[k])
      if (waits[k] > 0 && waits[n] > 0)
        edges += fmt::format("{}{} -> {}", edges.empty() ? "" : ", ", members[k]->name, members[n]->name);
  return error(FE_EINVALID, "FE-M10", "the passes of {} are in a cycle: {}; drop one 'after' or 'before'",
               phase, edges);
}

}  // namespace ferrite::core::plugin
