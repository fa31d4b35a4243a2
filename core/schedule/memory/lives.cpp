// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/schedule/memory/lives.h"

#include <algorithm>
#include <numeric>
#include <set>

namespace ferrite::core::schedule {

Lives::Lives(const Schedule& schedule) {
  const auto& program = schedule.program;
  const auto init = init_groups(schedule);
  const auto constants = init_buffers(schedule, init);
  lives.resize(program.buffers.size());
  versions.resize(program.buffers.size());
  for (const auto& buffer : program.buffers)
    if (buffer.base != none) versions[buffer.base] = std::max(versions[buffer.base], buffer.version);
  for (size_t g = 0; g < schedule.groups.size(); ++g) {
    std::set<BufferId> reads, writes;
    for (uint32_t s : schedule.groups[g].statements) {
      const auto& statement = program.statements[s];
      for (const auto& op : statement.ops)
        if (op.code == FE_OP_LOAD) reads.insert(program.storage(op.buffer));
      for (const auto& store : statement.stores) writes.insert(program.storage(store.buffer));
      for (BufferId b : statement.call.reads) reads.insert(program.storage(b));
      for (BufferId b : statement.call.writes) writes.insert(program.storage(b));
    }
    read.emplace_back(reads.begin(), reads.end());
    written.emplace_back(writes.begin(), writes.end());
    reads.merge(writes);
    touched.emplace_back(reads.begin(), reads.end());
    for (BufferId b : touched.back()) {
      lives[b].first = std::min(lives[b].first, g);
      lives[b].last = g;
    }
  }
  for (BufferId b = 0; b < lives.size(); ++b)
    lives[b].arena = program.buffers[b].role == Role::temporary && program.buffers[b].base == none &&
                     !constants.contains(b) && lives[b].first < lives[b].last;
}

std::vector<int64_t> live_bytes(const Schedule& schedule, const Lives& lives) {
  std::vector<int64_t> change(schedule.groups.size() + 1);
  for (BufferId b = 0; b < lives.lives.size(); ++b) {
    const auto& life = lives.lives[b];
    if (!life.arena) continue;
    change[life.first] += schedule.program.buffers[b].bytes();
    change[life.last + 1] -= schedule.program.buffers[b].bytes();
  }
  change.pop_back();
  std::partial_sum(change.begin(), change.end(), change.begin());
  return change;
}

int64_t peak(const std::vector<int64_t>& bytes) {
  return bytes.empty() ? 0 : *std::ranges::max_element(bytes);
}

}  // namespace ferrite::core::schedule
