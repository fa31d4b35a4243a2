// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/ir/graph/types.h"

#include <algorithm>
#include <bit>

namespace ferrite::core::graph {

bool operator==(const Attribute& a, const Attribute& b) {
  if (a.name != b.name || a.value.index() != b.value.index()) return false;
  const auto same = [](double x, double y) {
    return std::bit_cast<uint64_t>(x) == std::bit_cast<uint64_t>(y);
  };
  if (const auto* x = std::get_if<double>(&a.value)) return same(*x, std::get<double>(b.value));
  if (const auto* x = std::get_if<std::vector<double>>(&a.value)) {
    const auto& y = std::get<std::vector<double>>(b.value);
    return std::equal(x->begin(), x->end(), y.begin(), y.end(), same);
  }
  return a.value == b.value;
}

std::string_view attribute_kind_name(uint32_t kind) {
  switch (kind) {
    case FE_ATTR_INT: return "an integer";
    case FE_ATTR_FLOAT: return "a float";
    case FE_ATTR_STRING: return "a string";
    case FE_ATTR_DTYPE: return "an element type";
    case FE_ATTR_INTS: return "a list of integers";
    case FE_ATTR_FLOATS: return "a list of floats";
    case FE_ATTR_STRINGS: return "a list of strings";
    case FE_ATTR_BOOL: return "true or false";
    default: return "of an unknown kind";
  }
}

}  // namespace ferrite::core::graph
