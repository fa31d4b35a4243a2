// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/schedule/fusion/groups.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <set>
#include <utility>

namespace ferrite::core::schedule {

Groups::Groups(const LoopProgram& program, const Dependencies& dependencies)
    : dependencies_(dependencies),
      groups_(program.statements.size()),
      group_of_(groups_.size()),
      position_(groups_.size()),
      visited_(groups_.size()) {
  for (uint32_t s = 0; s < groups_.size(); ++s) {
    groups_[s].statements = {s};
    groups_[s].shared = static_cast<uint32_t>(program.statements[s].parallel_count());
    group_of_[s] = position_[s] = s;
  }
}

/// The other groups between the positions of both that depend on `from`, or that it depends on, on paths that
/// avoid `end`.
std::vector<uint32_t> Groups::between(uint32_t from, uint32_t end, Direction direction) const {
  const auto& next = direction == Direction::forward ? dependencies_.after : dependencies_.before;
  const auto [low, high] = std::minmax(position_[from], position_[end]);
  std::vector<uint32_t> found, stack = {from};
  ++visit_;
  while (!stack.empty()) {
    const uint32_t group = stack.back();
    stack.pop_back();
    for (uint32_t s : groups_[group].statements)
      for (uint32_t other : next[s]) {
        const uint32_t g = group_of_[other];
        if (position_[g] <= low || position_[g] >= high || visited_[g] == visit_) continue;
        visited_[g] = visit_;
        found.push_back(g);
        stack.push_back(g);
      }
  }
  return found;
}

/// A chain between two groups passes only through positions between theirs, because positions are a
/// topological order.
bool Groups::path_around(uint32_t a, uint32_t b) const {
  if (position_[a] > position_[b]) std::swap(a, b);
  return std::ranges::any_of(between(a, b, Direction::forward), [&](uint32_t group) {
    return std::ranges::any_of(groups_[group].statements, [&](uint32_t s) {
      return std::ranges::any_of(dependencies_.after[s], [&](uint32_t next) { return group_of_[next] == b; });
    });
  });
}

/// Restores the topological order when the two groups become one: predecessors of the later group move before
/// the joined group, successors of the earlier one after it (Pearce and Kelly, A dynamic topological sort
/// algorithm for directed acyclic graphs, 2007).
void Groups::order_with(uint32_t a, uint32_t b) {
  if (position_[a] > position_[b]) std::swap(a, b);
  auto after = between(a, b, Direction::forward), before = between(b, a, Direction::backward);
  const auto by_position = [&](uint32_t x, uint32_t y) { return position_[x] < position_[y]; };
  std::ranges::sort(after, by_position);
  std::ranges::sort(before, by_position);
  std::vector<uint32_t> places = {position_[a], position_[b]};
  for (const auto* list : {&before, &after})
    for (uint32_t group : *list) places.push_back(position_[group]);
  std::ranges::sort(places);
  for (size_t k = 0; k < before.size(); ++k) position_[before[k]] = places[k];
  position_[a] = position_[b] = places[before.size()];
  for (size_t k = 0; k < after.size(); ++k) position_[after[k]] = places[before.size() + 2 + k];
}

void Groups::join(uint32_t a, uint32_t b, uint32_t shared) {
  order_with(a, b);
  auto& first = groups_[a];
  auto& second = groups_[b];
  for (uint32_t s : second.statements) group_of_[s] = a;
  first.statements.insert(first.statements.end(), second.statements.begin(), second.statements.end());
  std::sort(first.statements.begin(), first.statements.end());
  first.shared = shared;
  second.statements.clear();
}

void Groups::dissolve(uint32_t a, uint32_t b) {
  order_with(b, a);
  for (uint32_t s : groups_[a].statements) group_of_[s] = b;
  groups_[a].statements.clear();
}

std::vector<Group> Groups::ordered() const {
  std::vector<size_t> waits(groups_.size(), 0);
  std::vector<std::set<uint32_t>> next(groups_.size());
  for (uint32_t s = 0; s < group_of_.size(); ++s)
    for (uint32_t after : dependencies_.after[s])
      if (group_of_[after] != group_of_[s] && next[group_of_[s]].insert(group_of_[after]).second)
        ++waits[group_of_[after]];
  std::priority_queue<uint32_t, std::vector<uint32_t>, std::greater<>> ready;
  for (uint32_t g = 0; g < groups_.size(); ++g)
    if (!groups_[g].statements.empty() && waits[g] == 0) ready.push(g);
  std::vector<Group> result;
  while (!ready.empty()) {
    uint32_t g = ready.top();
    ready.pop();
    result.push_back(groups_[g]);
    for (uint32_t n : next[g])
      if (--waits[n] == 0) ready.push(n);
  }
  return result;
}

}  // namespace ferrite::core::schedule
