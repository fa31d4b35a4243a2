// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads tables and names that plugins provide, without trusting them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/support/abi/abi.h"
#include "core/support/error.h"
#include "ferrite/abi/plugin.h"

namespace ferrite::core::plugin {

/// A plausible limit: no struct of any version of the ABI comes close, so a larger size is corrupt.
inline constexpr uint64_t largest_struct = 1 << 16;
/// Likewise for the number of contributions and the length of a name.
inline constexpr uint64_t most_items = 1 << 16, longest_name = 1 << 12;

inline Result<std::string> name_of(fe_string text, std::string_view what) {
  if (!text.data || text.length == 0 || text.length > longest_name)
    return error(FE_EINVALID, "FE-P07", "its {} is missing, or {} bytes long", what, text.length);
  return std::string(text.data, text.length);
}

inline Result<std::vector<std::string>> names_of(const fe_array& array, std::string_view what) {
  if (!abi::readable<fe_string>(array) || array.count > most_items)
    return error(FE_EINVALID, "FE-P07", "its array of {} cannot be read: {} elements, a stride of {}", what,
                 array.count, array.stride);
  std::vector<std::string> result;
  for (size_t k = 0; k < array.count; ++k) {
    FE_TRY(result.emplace_back(), name_of(abi::element<fe_string>(array, k), what));
  }
  return result;
}

/// A plugin's table, which must have at least `least` bytes, the size of its first version.
template <class Table>
Result<const Table*> table_of(const fe_contribution& contribution, std::string_view what,
                              size_t least = sizeof(Table)) {
  const auto* table = static_cast<const Table*>(contribution.table);
  if (!table) return error(FE_EINVALID, "FE-P07", "its {} table is null", what);
  if (reinterpret_cast<uintptr_t>(table) % alignof(Table) != 0)
    return error(FE_EINVALID, "FE-P07", "its {} table is not aligned", what);
  if (table->size < least)
    return error(FE_EINVALID, "FE-P07", "its {} table has {} bytes, the ABI's first version has {}", what,
                 table->size, least);
  if (table->size > largest_struct)
    return error(FE_EINVALID, "FE-P07", "its {} table says that it has {} bytes, a size that no version has",
                 what, table->size);
  return table;
}

inline Error null_slot(std::string_view what, std::string_view slot) {
  return error(FE_EINVALID, "FE-P07", "its {} table has no '{}' function", what, slot);
}

}  // namespace ferrite::core::plugin
