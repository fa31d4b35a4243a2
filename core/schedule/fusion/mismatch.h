// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Why pairs of statements are not fused: the categories, and how the ones that lie in the loops are recognised.
#pragma once

#include <string>
#include <string_view>

#include "core/schedule/schedule.h"

namespace ferrite::core::schedule {

/// As the ledger, the metric tables and `explain` name them.
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

/// Why something is not done.
struct Refusal {
  std::string_view category;  ///< empty: nothing speaks against it
  std::string text;
};

/// How the loops of two statements differ around a storage that both touch: the first difference that is found between an access
/// of one and an access of the other, one of them a store where there is any.
Refusal mismatch(const LoopProgram& program, uint32_t first, uint32_t second, BufferId storage);

/// How their loops differ, whatever they touch.
Refusal mismatch(const LoopProgram& program, uint32_t first, uint32_t second);

}  // namespace ferrite::core::schedule
