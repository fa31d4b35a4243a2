// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <vector>

#include "core/schedule/schedule.h"

namespace ferrite::core::schedule {

/// Statements in groups that become one, step by step, while the dependencies between groups stay without a cycle. A group is named by
/// the number of one of its statements. Not for several threads at once.
class Groups {
 public:
  /// Each statement is a group of its own. Keeps a reference to the dependencies, which may lose statements.
  Groups(const LoopProgram& program, const Dependencies& dependencies);

  uint32_t of(uint32_t statement) const { return group_of_[statement]; }
  const Group& operator[](uint32_t group) const { return groups_[group]; }
  /// Whether there is a chain of dependencies from one to the other through a third: then they cannot become one.
  bool path_around(uint32_t a, uint32_t b) const;
  /// `b` becomes a part of `a`, with so many shared loops.
  void join(uint32_t a, uint32_t b, uint32_t shared);
  /// `a`, of one statement, ends: group `b` does what it did. Call it before the dependencies change.
  void dissolve(uint32_t a, uint32_t b);
  /// In dependency order, the one with the earliest statement first.
  std::vector<Group> ordered() const;

 private:
  enum class Direction : uint8_t { forward, backward };

  std::vector<uint32_t> between(uint32_t from, uint32_t end, Direction direction) const;
  void order_with(uint32_t a, uint32_t b);

  const Dependencies& dependencies_;
  std::vector<Group> groups_;
  std::vector<uint32_t> group_of_;
  std::vector<uint32_t> position_;         ///< by group, in an order of dependencies
  mutable std::vector<uint64_t> visited_;  ///< by group: the last search that found it
  mutable uint64_t visit_ = 0;
};

}  // namespace ferrite::core::schedule
