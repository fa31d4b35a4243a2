// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The arena of a run: where the buffers between its kernels lie, and the workspaces of these.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/ir/loop/program.h"
#include "runtime/memory_plan.h"

namespace ferrite::core::observe {
class Observation;
}

namespace ferrite::core::runtime {

/// Steps are groups, by number.
struct ArenaNeeds {
  /// Asks for the buffer to live while the group runs, too.
  void keep(loop::BufferId buffer, int64_t bytes, size_t group);
  /// Of buffers that live while the group runs.
  int64_t bytes_at(size_t group) const;

  std::vector<loop::BufferId> buffers;
  std::vector<runtime::Lifetime> lifetimes;   ///< of the buffers
  std::vector<runtime::Lifetime> workspaces;  ///< each for all workers together, while its kernel runs
  int64_t workers = 1;

 private:
  std::map<loop::BufferId, size_t> number_;
};

class ArenaPlan {
 public:
  ArenaPlan() = default;
  /// All workspaces have one place, so that it stays in the caches. If the arena is larger than `most` bytes then, each has a place
  /// where there is room while its kernel runs.
  ArenaPlan(const ArenaNeeds& needs, int64_t alignment, int64_t most);

  /// Lays everything anew: each place is one buffer's for the whole run, and before and behind it there is a red zone, memory that is
  /// nobody's.
  void keep_apart();

  int64_t bytes() const { return memory_.bytes; }
  const std::map<loop::BufferId, int64_t>& offsets() const { return offsets_; }  ///< in bytes

  struct Part {
    loop::BufferId buffer;  ///< none: of workspaces
    int64_t offset, bytes;
  };
  /// What lies in the arena, by its offsets where it is kept apart.
  std::vector<Part> parts() const;

  /// By group, in bytes, of those that have one.
  const std::map<size_t, int64_t>& workspaces() const { return workspace_at_; }
  /// A line for each buffer and workspace.
  std::string text() const;
  void describe(observe::Observation& seen) const;

 private:
  void lay(const ArenaNeeds& needs, std::vector<runtime::Lifetime> workspaces);
  /// Makes the maps of where buffers and workspaces lie.
  void index();

  std::vector<loop::BufferId> buffers_;
  std::vector<runtime::Lifetime> lifetimes_;  ///< of the buffers, then of the workspaces
  std::vector<size_t> groups_;                 ///< that have a workspace
  int64_t workers_ = 1, alignment_ = 1;
  runtime::MemoryPlan memory_;
  std::map<loop::BufferId, int64_t> offsets_;
  std::map<size_t, int64_t> workspace_at_;
};

}  // namespace ferrite::core::runtime
