// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which pairs of statements fusion considers, and the reasons for the pairs that it does not.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/schedule/schedule.h"

namespace ferrite::core::schedule {

/// Each reader of a buffer is paired with this many readers before it. Where a buffer has many writers, as a
/// concatenation has, each writer and each reader is in this many producer-consumer pairs. The number of
/// pairs thus grows linearly with reads and writes.
constexpr size_t most_neighbours = 4;

/// The writers of a storage that are paired with one of its readers. Where both are many, these are the
/// writers at about the reader's own position.
std::span<const uint32_t> tried_writers(const Dependencies& deps, uint32_t reader, BufferId b);

/// A node of the model and the statements that come from it, wholly or in part.
struct NodeStatements {
  std::string_view name;
  std::vector<uint32_t> statements;
};

/// The reason why fuse() considers no pair of statements of two nodes.
struct UnconsideredPairs {
  std::string_view category;  ///< of `untried_category`
  std::string text;           ///< for people
  uint64_t bytes = 0;         ///< of the buffer that both access
};

namespace untried_category {
inline constexpr std::string_view readers = "far apart";  ///< both read it, with other readers between them
inline constexpr std::string_view writers = "many writers";   ///< one reads it, and it has other writers too
inline constexpr std::string_view off = "switched off";       ///< both only read it, or fusion is off
inline constexpr std::string_view order = "written later";    ///< one reads it before the other changes it
inline constexpr std::string_view parts = "written by both";  ///< neither reads it
inline constexpr std::string_view nothing = "nothing shared";
/// already in one group when their pair came up
inline constexpr std::string_view together = "together before";
}  // namespace untried_category

/// `program`: as fusion receives it. Of several common buffers, the one that came closest to being considered
/// is reported.
UnconsideredPairs why_untried(const LoopProgram& program, Features without, const NodeStatements& a,
                              const NodeStatements& b);

}  // namespace ferrite::core::schedule
