// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The reasons why pairs of statements are not fused: their categories, and how to recognise those that lie in
// the loops.
#pragma once

#include <string>
#include <string_view>

#include "core/schedule/schedule.h"

namespace ferrite::core::schedule {

/// The names of the categories in the ledger, in the metric tables and in `explain`.
namespace category {
inline constexpr std::string_view element_count = "different element count";
inline constexpr std::string_view broadcast = "broadcast";
inline constexpr std::string_view loop_order = "different loop order";
inline constexpr std::string_view offset = "different offset";
inline constexpr std::string_view no_dependency = "not a memory dependency";
inline constexpr std::string_view contraction = "contraction";
inline constexpr std::string_view cost = "cost";
inline constexpr std::string_view size_limit = "size limit";
inline constexpr std::string_view cycle = "cycle";
inline constexpr std::string_view device = "device";
inline constexpr std::string_view policy = "policy";
inline constexpr std::string_view forbidden = "forbidden";
inline constexpr std::string_view unknown = "unknown";
}  // namespace category

/// The reason why an optimisation is not applied.
struct Refusal {
  std::string_view category;  ///< empty: there is no obstacle
  std::string text;
};

/// How the loops of two statements differ in their accesses to a common storage: the first difference between
/// an access of one and an access of the other. Pairs of accesses with a store take precedence over pairs of
/// loads.
Refusal mismatch(const LoopProgram& program, uint32_t first, uint32_t second, BufferId storage);

/// How the loops of two statements differ, independent of what they access.
Refusal mismatch(const LoopProgram& program, uint32_t first, uint32_t second);

}  // namespace ferrite::core::schedule
