// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The arena of a run: the offsets of the buffers between its kernels, and of the kernels' workspaces.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/ir/loop/program.h"
#include "runtime/memory_plan.h"

namespace ferrite::core::observe {
class Observation;
}

namespace ferrite::core::link {

using namespace ferrite::core::runtime;

/// The lifetimes of an arena's buffers and workspaces. Time is counted in groups, by number.
struct ArenaNeeds {
  /// Extends the buffer's lifetime to include the group.
  void keep(loop::BufferId buffer, int64_t bytes, size_t group);
  /// Adds an operand that is packed just before the group's kernel, under a number of its own.
  void keep_packed(loop::BufferId number, int64_t bytes, size_t group);
  /// Removes a buffer that lives elsewhere.
  void drop(loop::BufferId buffer);
  /// The bytes of the buffers that live while the group runs.
  int64_t bytes_at(size_t group) const;

  std::vector<loop::BufferId> buffers;
  std::vector<runtime::Lifetime> lifetimes;   ///< of the buffers
  std::vector<runtime::Lifetime> workspaces;  ///< one for all workers of a kernel, alive while it runs
  std::set<loop::BufferId> packed;            ///< of the buffers
  int64_t workers = 1;

 private:
  std::map<loop::BufferId, size_t> number_;
};

class ArenaPlan {
 public:
  ArenaPlan() = default;
  /// Plans offsets. All workspaces share one slot, so that it stays in the caches. If the arena is then
  /// larger than `most` bytes, each workspace gets a slot of its own that is free while its kernel runs.
  ArenaPlan(const ArenaNeeds& needs, int64_t alignment, int64_t most);

  /// Plans again without reuse: each slot belongs to one buffer for the whole run, and is surrounded by red
  /// zones, memory that nothing may write.
  void keep_apart();

  int64_t bytes() const { return memory_.bytes; }
  const std::map<loop::BufferId, int64_t>& offsets() const { return offsets_; }  ///< in bytes

  struct Part {
    loop::BufferId buffer;  ///< none: workspaces
    int64_t offset, bytes;
  };
  /// The contents of the arena; after keep_apart() in the order of their offsets.
  std::vector<Part> parts() const;

  /// By group, in bytes, for groups that have a workspace.
  const std::map<size_t, int64_t>& workspaces() const { return workspace_at_; }
  /// One line for each buffer and workspace.
  std::string text() const;
  void describe(observe::Observation& seen) const;

 private:
  void lay(const ArenaNeeds& needs, std::vector<runtime::Lifetime> workspaces);
  /// Fills the maps of offsets.
  void index();

  std::vector<loop::BufferId> buffers_;
  std::set<loop::BufferId> packed_;
  std::vector<runtime::Lifetime> lifetimes_;  ///< of the buffers, then of the workspaces
  std::vector<size_t> groups_;                ///< with a workspace
  int64_t workers_ = 1, alignment_ = 1;
  runtime::MemoryPlan memory_;
  std::map<loop::BufferId, int64_t> offsets_;
  std::map<size_t, int64_t> workspace_at_;
};

}  // namespace ferrite::core::link
