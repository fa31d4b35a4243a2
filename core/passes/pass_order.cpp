// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <algorithm>
#include <map>
#include <set>

#include "core/plugin/registry.h"

namespace ferrite::core::plugin {
namespace {

std::vector<const PassEntry*> members_of(const std::vector<PassEntry>& passes, std::string_view phase) {
  std::vector<const PassEntry*> members;
  for (const auto& pass : passes)
    if (pass.phase == phase && pass.enabled) members.push_back(&pass);
  return members;
}

/// The place where `pass` declares "after" or "before" `other`: in a manifest or descriptor, else its plugin.
std::string place_of(const PassEntry& pass, const std::string& word, const std::string& other) {
  if (auto place = pass.places.find({word, other}); place != pass.places.end()) return place->second;
  return pass.plugin->library.empty() ? pass.plugin->id : pass.plugin->library;
}

/// The error for a cycle of passes. `waits` counts each pass's unordered predecessors; a pass that waits has
/// another waiting one before it.
Error cycle_error(const std::vector<const PassEntry*>& members, const std::vector<OrderEdge>& edges,
                  const std::vector<size_t>& waits, std::string_view phase) {
  std::map<const PassEntry*, const OrderEdge*> before;  // for each waiting pass, an edge from another one
  for (const auto& edge : edges)
    for (size_t k = 0; k < members.size(); ++k)
      if (waits[k] > 0 && members[k] == edge.first) before.try_emplace(edge.second, &edge);
  // Every waiting pass has a waiting predecessor, so walking backwards must reach some pass twice. That pass
  // is on the cycle.
  size_t waiting = 0;
  while (waits[waiting] == 0) ++waiting;
  const PassEntry* pass = members[waiting];
  for (std::set<const PassEntry*> seen; seen.insert(pass).second;) pass = before.at(pass)->first;
  std::vector<const OrderEdge*> cycle;
  const PassEntry* last = pass;
  do {
    cycle.push_back(before.at(last));
    last = cycle.back()->first;
  } while (last != pass);
  std::reverse(cycle.begin(), cycle.end());

  std::string text, where;
  // Point at the user's own manifest rather than a plugin's descriptor: the user can change it more easily.
  const auto prefer = [&](const std::string& place) {
    const auto is_descriptor = [](const std::string& text) {
      return text.find(fmt::format("{}:", descriptor_suffix)) != std::string::npos;
    };
    if (where.empty() || !is_descriptor(place) || is_descriptor(where)) where = place;
  };
  for (const auto* edge : cycle) {
    const auto &from = *edge->first, &to = *edge->second;
    text += fmt::format("{}{} -> {} ({})", text.empty() ? "" : ", ", from.name, to.name, edge->reason);
    if (auto place = to.places.find({"after", from.name}); place != to.places.end()) prefer(place->second);
    if (auto place = from.places.find({"before", to.name}); place != from.places.end()) prefer(place->second);
  }
  if (where.empty()) where = place_of(*pass, "", "");
  return at(std::move(where),
            error(FE_EINVALID, "FE-M10", "the passes of {} are in a cycle: {}; drop one 'after' or 'before'",
                  phase, text));
}

}  // namespace

std::vector<OrderEdge> order_edges(const std::vector<PassEntry>& passes, std::string_view phase) {
  const auto members = members_of(passes, phase);
  std::map<std::string_view, const PassEntry*> by_name;
  for (const auto* pass : members) by_name[pass->name] = pass;
  std::vector<OrderEdge> edges;
  // Ignore unknown names: that plugin or pass may be disabled.
  for (const auto* pass : members) {
    const auto reason = [&](const std::string& word, const std::string& name) {
      return fmt::format("'{}' says {} = \"{}\", {}", pass->name, word, name, place_of(*pass, word, name));
    };
    for (const auto& name : pass->after)
      if (auto found = by_name.find(name); found != by_name.end())
        edges.push_back({found->second, pass, reason("after", name)});
    for (const auto& name : pass->before)
      if (auto found = by_name.find(name); found != by_name.end())
        edges.push_back({pass, found->second, reason("before", name)});
  }
  return edges;
}

// Kahn's algorithm. Ready passes are kept sorted by plugin id and name, so that ties break the same way on
// every machine.
Result<std::vector<const PassEntry*>> order_passes(const std::vector<PassEntry>& passes,
                                                   std::string_view phase) {
  const auto members = members_of(passes, phase);
  const auto edges = order_edges(passes, phase);
  std::map<const PassEntry*, size_t> number;
  for (size_t k = 0; k < members.size(); ++k) number[members[k]] = k;

  std::vector<std::set<size_t>> next(members.size());
  std::vector<size_t> waits(members.size(), 0);
  for (const auto& edge : edges)
    if (next[number[edge.first]].insert(number[edge.second]).second) ++waits[number[edge.second]];
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
  if (order.size() < members.size()) return cycle_error(members, edges, waits, phase);
  return order;
}

}  // namespace ferrite::core::plugin
