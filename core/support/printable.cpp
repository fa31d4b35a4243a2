// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/support/printable.h"

#include <fmt/format.h>

namespace ferrite::core {

std::string printable(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (size_t k = 0; k < text.size(); ++k) {
    const auto byte = static_cast<unsigned char>(text[k]);
    const auto next = k + 1 < text.size() ? static_cast<unsigned char>(text[k + 1]) : 0;
    if (byte == 0xc2 && next >= 0x80 && next < 0xa0) {
      result += fmt::format("\\x{:02x}\\x{:02x}", byte, next);
      ++k;
    } else if ((byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7f) {
      result += fmt::format("\\x{:02x}", byte);
    } else {
      result += text[k];
    }
  }
  return result;
}

}  // namespace ferrite::core
