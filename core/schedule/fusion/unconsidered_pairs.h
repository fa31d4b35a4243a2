// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which pairs of statements fusion tries, and why it has no word about the others.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/schedule/schedule.h"

namespace ferrite::core::schedule {

/// A buffer's readers are compared with so many of those before them, and where it has many writers, as a concatenation has, they and its
/// readers make so many pairs each: pairs grow as reads and writes do.
constexpr size_t most_neighbours = 4;

/// The writers of a storage that a reader of it is tried with: those at about its own place among the readers, where there are many of
/// both.
std::span<const uint32_t> tried_writers(const Dependencies& deps, uint32_t reader, BufferId b);

/// A node of the model with the statements that come from it, or partly.
struct NodeStatements {
  std::string_view name;
  std::vector<uint32_t> statements;
};

/// Why fuse() tries no pair of statements of two nodes.
struct UnconsideredPairs {
  std::string_view category;  ///< of `untried_category`
  std::string text;           ///< for people
  uint64_t bytes = 0;         ///< of what both touch
};

namespace untried_category {
inline constexpr std::string_view readers = "far apart";      ///< both read it, and others between them
inline constexpr std::string_view writers = "many writers";   ///< one reads it, and others write it, too
inline constexpr std::string_view off = "switched off";       ///< both read it, or nothing is fused
inline constexpr std::string_view order = "written later";    ///< one reads it before the other changes it
inline constexpr std::string_view parts = "written by both";  ///< neither reads it
inline constexpr std::string_view nothing = "nothing shared";
inline constexpr std::string_view together = "together before";  ///< in one group when it was their turn
}  // namespace untried_category

/// `program` as fusion begins with it. Of what both touch that is told which comes nearest to being tried.
UnconsideredPairs why_untried(const LoopProgram& program, Features without, const NodeStatements& a,
                              const NodeStatements& b);

}  // namespace ferrite::core::schedule
