// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <string>
#include <string_view>

namespace ferrite::inline v0 {

/// "1 kernel", "2 kernels". Pass `many` if the plural is not formed by adding an s.
template <class Count>
std::string counted(Count count, std::string_view one, std::string_view many = {}) {
  std::string text = std::to_string(count) + " ";
  text += count == 1 || many.empty() ? one : many;
  if (count != 1 && many.empty()) text += "s";
  return text;
}

}  // namespace ferrite::inline v0
