// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/link/arena_plan.h"

#include <algorithm>

#include <fmt/format.h>

#include "core/observe/observation.h"
#include "core/support/log.h"
#include "ferrite/counted.hpp"

namespace ferrite::core::link {
namespace {

constexpr int64_t red_zone = 256;  // bytes: the largest store of a warp, one f64 for each thread

}  // namespace

void ArenaNeeds::keep(loop::BufferId buffer, int64_t bytes, size_t group) {
  const auto [found, added] = number_.emplace(buffer, lifetimes.size());
  if (added) {
    buffers.push_back(buffer);
    lifetimes.push_back({bytes, group, group});
  }
  auto& life = lifetimes[found->second];
  life.first = std::min(life.first, group);
  life.last = std::max(life.last, group);
}

void ArenaNeeds::keep_packed(loop::BufferId number, int64_t bytes, size_t group) {
  keep(number, bytes, group);
  packed.insert(number);
}

void ArenaNeeds::drop(loop::BufferId buffer) {
  const auto found = number_.find(buffer);
  if (found == number_.end()) return;
  const size_t number = found->second;
  number_.erase(found);
  packed.erase(buffer);
  buffers.erase(buffers.begin() + static_cast<std::ptrdiff_t>(number));
  lifetimes.erase(lifetimes.begin() + static_cast<std::ptrdiff_t>(number));
  for (auto& [other, position] : number_)
    if (position > number) --position;
}

int64_t ArenaNeeds::bytes_at(size_t group) const {
  int64_t bytes = 0;
  for (const auto& life : lifetimes)
    if (life.first <= group && group <= life.last) bytes += life.bytes;
  return bytes;
}

ArenaPlan::ArenaPlan(const ArenaNeeds& needs, int64_t alignment, int64_t most)
    : buffers_(needs.buffers), packed_(needs.packed), workers_(needs.workers), alignment_(alignment) {
  for (const auto& want : needs.workspaces) groups_.push_back(want.first);
  std::vector<runtime::Lifetime> one;
  if (!needs.workspaces.empty()) {
    one = {needs.workspaces.front()};
    one[0].last = needs.workspaces.back().last;
    for (const auto& want : needs.workspaces) one[0].bytes = std::max(one[0].bytes, want.bytes);
  }
  lay(needs, std::move(one));
  // One shared slot must span the lifetimes of all workspaces; separate slots can reuse memory of dead
  // buffers.
  if (memory_.bytes > most) lay(needs, needs.workspaces);
  index();
  log::print("schedule", "memory plan: {}, {}, {} with reuse, {} without", counted(buffers_.size(), "buffer"),
             counted(lifetimes_.size() - buffers_.size(), "workspace"), counted(memory_.bytes, "byte"),
             memory_.sum);
}

void ArenaPlan::lay(const ArenaNeeds& needs, std::vector<runtime::Lifetime> workspaces) {
  lifetimes_ = needs.lifetimes;
  lifetimes_.insert(lifetimes_.end(), workspaces.begin(), workspaces.end());
  memory_ = runtime::plan_memory(lifetimes_, alignment_);
}

void ArenaPlan::index() {
  for (size_t k = 0; k < buffers_.size(); ++k) offsets_[buffers_[k]] = memory_.offsets[k];
  for (size_t k = buffers_.size(); k < lifetimes_.size(); ++k)
    for (const size_t group : groups_)
      if (group >= lifetimes_[k].first && group <= lifetimes_[k].last)
        workspace_at_[group] = memory_.offsets[k];
}

void ArenaPlan::keep_apart() {
  if (lifetimes_.empty()) return;
  int64_t end = 0;
  for (size_t k = 0; k < lifetimes_.size(); ++k) {
    memory_.offsets[k] = (end + red_zone + alignment_ - 1) / alignment_ * alignment_;
    end = memory_.offsets[k] + lifetimes_[k].bytes;
  }
  memory_.bytes = end + red_zone;
  index();
}

std::vector<ArenaPlan::Part> ArenaPlan::parts() const {
  std::vector<Part> parts;
  for (size_t k = 0; k < lifetimes_.size(); ++k)
    parts.push_back(
        {k < buffers_.size() ? buffers_[k] : loop::none, memory_.offsets[k], lifetimes_[k].bytes});
  return parts;
}

std::string ArenaPlan::text() const {
  std::string text;
  for (size_t k = 0; k < lifetimes_.size(); ++k) {
    const auto& life = lifetimes_[k];
    if (k < buffers_.size())
      text += fmt::format("  {} offset {} bytes {}",
                          packed_.contains(buffers_[k]) ? "packed" : fmt::format("@{}", buffers_[k]),
                          memory_.offsets[k], life.bytes);
    else
      text += fmt::format("  workspace offset {} bytes {} workers {}", memory_.offsets[k],
                          life.bytes / workers_, workers_);
    text += fmt::format(" groups {} to {}\n", life.first, life.last);
  }
  return text;
}

void ArenaPlan::describe(observe::Observation& seen) const {
  seen.memory.clear();
  seen.workspace_bytes = 0;
  for (size_t k = 0; k < lifetimes_.size(); ++k) {
    const auto& life = lifetimes_[k];
    if (k < buffers_.size()) {
      seen.memory.push_back({buffers_[k], memory_.offsets[k], life.bytes, life.first, life.last, 0,
                             packed_.contains(buffers_[k])});
      continue;
    }
    seen.memory.push_back({loop::none, memory_.offsets[k], life.bytes, life.first, life.last, workers_});
    seen.workspace_bytes = std::max(seen.workspace_bytes, life.bytes);
  }
  seen.arena_bytes = memory_.bytes;
  seen.buffer_bytes = memory_.sum;
}

}  // namespace ferrite::core::link
