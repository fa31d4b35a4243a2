// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <vector>

#include "core/schedule/schedule.h"

namespace ferrite::core::schedule {

/// Groups of statements that are joined step by step while the dependencies between groups stay acyclic. A
/// group is named by the number of one of its statements. Not thread-safe.
class Groups {
 public:
  /// Each statement starts as a group of its own. Keeps a reference to the dependencies; statements may lose
  /// theirs later.
  Groups(const LoopProgram& program, const Dependencies& dependencies);

  uint32_t of(uint32_t statement) const { return group_of_[statement]; }
  const Group& operator[](uint32_t group) const { return groups_[group]; }
  /// Whether a chain of dependencies leads from one group to the other through a third. The two cannot be
  /// joined then.
  bool path_around(uint32_t a, uint32_t b) const;
  /// `b` becomes a part of `a`, which then shares this many loops.
  void join(uint32_t a, uint32_t b, uint32_t shared);
  /// Removes group `a`, which has one statement; group `b` now computes it. Call this before the dependencies
  /// change.
  void dissolve(uint32_t a, uint32_t b);
  /// The groups in an order of dependencies; of several that may come next, the one with the earliest
  /// statement.
  std::vector<Group> ordered() const;

 private:
  enum class Direction : uint8_t { forward, backward };

  std::vector<uint32_t> between(uint32_t from, uint32_t end, Direction direction) const;
  void order_with(uint32_t a, uint32_t b);

  const Dependencies& dependencies_;
  std::vector<Group> groups_;
  std::vector<uint32_t> group_of_;
  std::vector<uint32_t> position_;         ///< by group: its position in a topological order
  mutable std::vector<uint64_t> visited_;  ///< by group: the last search that visited it
  mutable uint64_t visit_ = 0;
};

}  // namespace ferrite::core::schedule
